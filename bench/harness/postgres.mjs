// A PostgreSQL server of the bench's own: free port, its own folder, no fsync, so that disks don't enter the figures. Installed
// by the system's package manager if it is not there.

import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { chownSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import pg from "pg";
import { freePort } from "./free-port.mjs";
import { pinned } from "./pin.mjs";
import { requireProgram } from "./require-program.mjs";

const DEBIAN_FOLDER = "/usr/lib/postgresql";
const START_MS = 20_000;

/** Starts postgres on a free loopback port, and on `core` only if given; resolves once it answers. */
export async function startPostgres(core) {
  requireProgram("postgres", () => findPrograms() !== undefined);
  const programs = findPrograms();
  const directory = mkdtempSync(join(tmpdir(), "headgate-bench-postgres-"));
  const identity = process.getuid() === 0 ? identityOf("postgres") : {};
  if (identity.uid !== undefined) chownSync(directory, identity.uid, identity.gid);
  const options = { cwd: directory, stdio: ["ignore", "ignore", "pipe"], ...identity };
  const made = spawnSync(
    join(programs, "initdb"),
    ["-D", join(directory, "data"), "-U", "headgate", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"],
    options,
  );
  if (made.status !== 0) throw new Error(`initdb failed: ${made.stderr}`);
  const port = await freePort();
  const settings = [`port=${port}`, "listen_addresses=127.0.0.1", `unix_socket_directories=${directory}`];
  settings.push("fsync=off", "shared_buffers=128MB", "max_connections=300");
  const args = ["-D", join(directory, "data"), ...settings.flatMap((setting) => ["-c", setting])];
  const server = [join(programs, "postgres"), ...args];
  const [command, ...rest] = core === undefined ? server : pinned(core, server);
  const child = spawn(command, rest, { ...options, stdio: "ignore" });
  await whenAnswering(port);
  return {
    port,
    /** The server and its backends: those there are now. */
    pids: () => [child.pid, ...childrenOf(child.pid)],
    version: spawnSync(join(programs, "postgres"), ["--version"], { encoding: "utf8" }).stdout.trim(),
    async stop() {
      child.kill("SIGINT");
      await once(child, "exit");
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

function childrenOf(pid) {
  try {
    return readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(" ").filter(Boolean).map(Number);
  } catch {
    return [];
  }
}

/** How benches reach it with pg. */
export function clientFor(port) {
  return { host: "127.0.0.1", port, user: "headgate", database: "postgres" };
}

function findPrograms() {
  const debian = existsSync(DEBIAN_FOLDER) ? readdirSync(DEBIAN_FOLDER).sort((a, b) => Number(b) - Number(a)) : [];
  const folders = [
    ...debian.map((version) => join(DEBIAN_FOLDER, version, "bin")),
    ...process.env.PATH.split(delimiter),
  ];
  return folders.find((folder) => existsSync(join(folder, "initdb")) && existsSync(join(folder, "postgres")));
}

function identityOf(name) {
  const [uid, gid] = ["-u", "-g"].map((what) => Number(spawnSync("id", [what, name], { encoding: "utf8" }).stdout));
  return { uid, gid };
}

async function whenAnswering(port) {
  const end = performance.now() + START_MS;
  for (;;) {
    const client = new pg.Client(clientFor(port));
    try {
      await client.connect();
      await client.end();
      return;
    } catch (error) {
      if (performance.now() > end) throw error;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}
