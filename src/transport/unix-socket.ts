// The file of a Unix socket that gRPC is served on: what a process leaves behind that was killed.

import { rm } from "node:fs/promises";
import { connect } from "node:net";

/** Removes the socket file that a killed process left behind: nobody can listen on it until it is gone. */
export async function removeAbandonedSocket(path: string): Promise<void> {
  const isAbandoned = await new Promise<boolean>((resolve) => {
    const probe = connect(path, () => {
      probe.destroy();
      resolve(false);
    });
    probe.on("error", (error: NodeJS.ErrnoException) => resolve(error.code === "ECONNREFUSED"));
  });
  if (isAbandoned) await rm(path, { force: true });
}
