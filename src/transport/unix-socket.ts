// The file of a Unix socket, which a killed process leaves behind.

import { rm } from "node:fs/promises";
import { connect } from "node:net";

/** Removes the socket file if no process listens on it: until then no process can listen on the path. */
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
