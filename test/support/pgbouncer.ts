// A real PgBouncer in front of a test's PostgreSQL.

import { spawn } from "node:child_process";
import { chmodSync, writeFileSync } from "node:fs";
import { createConnection } from "node:net";
import { join } from "node:path";
import { expect } from "vitest";
import { ownProcess } from "./child-processes.ts";
import { pgbouncer, unpackedLibraries } from "./debian-program.ts";
import { freePort } from "./redis-server.ts";
import { temporaryFolder } from "./temporary-folder.ts";

/** Starts it, and resolves to its port once it listens. `mode`: how clients share sessions. */
export async function startPgBouncer(postgresPort: number, mode: "session" | "transaction"): Promise<number> {
  const folder = temporaryFolder("pgbouncer");
  chmodSync(folder, 0o755);
  const port = await freePort();
  const file = join(folder, "pgbouncer.ini");
  const settings = [
    "listen_addr = 127.0.0.1",
    `listen_port = ${port}`,
    "unix_socket_dir =",
    "auth_type = any",
    `pool_mode = ${mode}`,
    "default_pool_size = 20",
  ];
  const database = `* = host=127.0.0.1 port=${postgresPort} user=headgate`;
  writeFileSync(file, `[databases]\n${database}\n[pgbouncer]\n${settings.join("\n")}\n`);
  const path = pgbouncer();
  // It refuses to run as root.
  const identity = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {};
  ownProcess(spawn(path, ["-q", file], { stdio: "ignore", env: unpackedLibraries(path), ...identity }));
  await expect.poll(() => accepts(port)).toBe(true);
  return port;
}

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = createConnection(port, "127.0.0.1");
    socket.on("connect", () => resolve(true)).on("error", () => resolve(false));
    socket.on("connect", () => socket.destroy());
  });
}
