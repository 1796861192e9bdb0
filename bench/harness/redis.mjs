// A redis-server of the bench's own: free port, no persistence, one core.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";

/** Starts redis-server on a free loopback port; resolves once it accepts connections. */
export async function startRedis() {
  const port = await freePort();
  const child = spawn(
    "redis-server",
    ["--port", String(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"],
    {
      stdio: ["ignore", "pipe", "inherit"],
    },
  );
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
    pid: child.pid,
    async stop() {
      child.kill("SIGTERM");
      await once(child, "exit");
    },
  };
}

async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  await once(server, "close");
  return port;
}
