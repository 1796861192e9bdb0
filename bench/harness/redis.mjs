// A redis-server of the bench's own: free port, no persistence, one core.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { freePort } from "./free-port.mjs";
import { pinned } from "./pin.mjs";

/**
 * Starts redis-server on a free loopback port, and on `core` only if given, with `more` on its command line; resolves once it
 * accepts connections.
 */
export async function startRedis(core, more = []) {
  const port = await freePort();
  const basics = ["--port", String(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"];
  const server = ["redis-server", ...basics, ...more];
  const [command, ...args] = core === undefined ? server : pinned(core, server);
  const child = spawn(command, args, { stdio: ["ignore", "pipe", "inherit"] });
  await new Promise((resolve, reject) => {
    child.once("error", () =>
      reject(new Error("redis-server was not found on the PATH; install it (Debian: redis-server)")),
    );
    child.once("exit", (code) => reject(new Error(`redis-server ended with ${code} before it was ready`)));
    let seen = "";
    child.stdout.on("data", (chunk) => {
      seen += chunk;
      if (seen.includes("Ready to accept connections")) resolve();
    });
  });
  child.removeAllListeners("exit");
  return {
    port,
    ports: [port],
    pids: [child.pid],
    pid: child.pid,
    async stop() {
      child.kill("SIGTERM");
      await once(child, "exit");
    },
  };
}
