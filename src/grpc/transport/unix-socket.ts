// The file of a Unix socket, which a killed process leaves behind.

import { lstat, rm } from "node:fs/promises";
import { connect } from "node:net";

/**
 * Removes the socket file if no process listens on it: until then no process can listen on the path. A file or directory there stays, and
 * whoever listens is told that the address is in use.
 */
export async function removeAbandonedSocket(path: string): Promise<void> {
  const isSocket = await lstat(path).then(
    (one) => one.isSocket(),
    () => false,
  );
  // The system refuses connections to other files with the same error.
  if (!isSocket) return;
  const isAbandoned = await new Promise<boolean>((resolve) => {
    const probe = connect(path, () => {
      probe.destroy();
      resolve(false);
    });
    probe.on("error", (error: NodeJS.ErrnoException) => resolve(error.code === "ECONNREFUSED"));
  });
  if (isAbandoned) await rm(path, { force: true });
}
