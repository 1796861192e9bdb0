// A real PostgreSQL of a test's own: on a free port, without files that outlive it, to be stopped, killed and paused.

import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import {
  chownSync,
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
} from "node:fs";
import { delimiter, dirname, join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Client } from "pg";
import type { PostgresTarget } from "../../src/settings/store-address.ts";
import { ownProcess, showOnFailure } from "./child-processes.ts";
import { endWithTest } from "./ends.ts";
import { freePort } from "./redis-server.ts";
import { removeFolder, temporaryFolder } from "./temporary-folder.ts";

const CACHE = resolve(import.meta.dirname, "../../.cache");
const START_MS_MAX = 20_000;
const DEBIAN_FOLDER = "/usr/lib/postgresql";
const VERSION_MIN = 15;
const WANTED = `The tests with a real PostgreSQL need its server (version ${VERSION_MIN} or newer: initdb and postgres)`;

/** Whom the server runs as; undefined means ourselves. PostgreSQL refuses to run as root. */
interface Identity {
  readonly uid: number;
  readonly gid: number;
}

/** One server. `start` resolves when it answers. */
export class PostgresServer {
  readonly port: number;
  /** Holds its data and its Unix socket; files of a test may lie there too. */
  readonly directory: string;
  readonly #programs: string;
  readonly #args: readonly string[];
  readonly #log: string;
  /** Its log, once its directory is gone. */
  #said = "";
  #child: ChildProcess | undefined;
  #admin: Client | undefined;

  private constructor(port: number, directory: string, programs: string, args: readonly string[]) {
    this.port = port;
    this.directory = directory;
    this.#programs = programs;
    this.#args = args;
    this.#log = join(directory, "log");
    showOnFailure(`postgres on port ${port}`, () => this.#read());
  }

  /** Starts a server on a free port; `args` are settings such as `max_connections=20`. */
  static async start(args: readonly string[] = []): Promise<PostgresServer> {
    const programs = findPrograms() ?? installPrograms();
    const directory = folderOfServers();
    copyCluster(newCluster(programs), join(directory, "data"));
    const server = new PostgresServer(await freePort(), directory, programs, args);
    endWithTest(() => server.stop());
    await server.restart();
    return server;
  }

  /** How a store reaches it. */
  target(overrides: Partial<PostgresTarget> = {}): PostgresTarget {
    return {
      host: "127.0.0.1",
      port: this.port,
      database: "postgres",
      user: "headgate",
      password: undefined,
      passwordFile: undefined,
      tls: undefined,
      connectTimeoutMs: 2_000,
      ...overrides,
    };
  }

  /** Runs a statement and resolves with its rows. */
  async query(text: string, values: readonly unknown[] = []): Promise<Record<string, unknown>[]> {
    return (await (await this.#client()).query(text, [...values])).rows;
  }

  /** Stops it and every process of it from running, connections stay open: it hangs. */
  pause(): void {
    this.#signalAll("SIGSTOP");
  }

  /** Lets it run on after `pause`. */
  resume(): void {
    this.#signalAll("SIGCONT");
  }

  /** Has another process let it run on `afterMs` from now, whatever this one does meanwhile. To be called after `pause`. */
  resumeAside(afterMs: number): void {
    const ids = this.#processes().join(" ");
    ownProcess(spawn("sh", ["-c", `sleep ${afterMs / 1_000}; kill -CONT ${ids}`], { stdio: "ignore" }));
  }

  /** Ends it at once, all its processes with it, as a crash does. */
  async kill(): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    const admin = this.#admin;
    this.#admin = undefined;
    await admin?.end().catch(() => undefined);
    if (child === undefined || child.exitCode !== null) return;
    const exited = once(child, "exit");
    // SIGQUIT is PostgreSQL's own word for a crash: no processes stay behind to hold its shared memory.
    child.kill("SIGCONT");
    child.kill("SIGQUIT");
    await exited;
  }

  /** Starts it again on the same port and the same data. */
  async restart(): Promise<void> {
    await this.kill();
    const log = openSync(this.#log, "a");
    const child = ownProcess(
      spawn(join(this.#programs, "postgres"), this.#commandLine(), {
        stdio: ["ignore", log, log],
        cwd: this.directory,
        ...unprivileged(),
      }),
    );
    closeSync(log);
    this.#child = child;
    await this.#whenAnswering(child);
  }

  /** Ends it and removes its directory. */
  async stop(): Promise<void> {
    await this.kill();
    this.#said = this.#read();
    removeFolder(this.directory);
  }

  #read(): string {
    return existsSync(this.#log) ? readFileSync(this.#log, "utf8") : this.#said;
  }

  #commandLine(): string[] {
    const settings = [
      `port=${this.port}`,
      "listen_addresses=127.0.0.1",
      `unix_socket_directories=${this.directory}`,
      "fsync=off",
      "full_page_writes=off",
      "shared_buffers=32MB",
      ...this.#args,
    ];
    return ["-D", join(this.directory, "data"), ...settings.flatMap((setting) => ["-c", setting])];
  }

  #signalAll(signal: NodeJS.Signals): void {
    for (const pid of this.#processes()) process.kill(pid, signal);
  }

  // The server's processes are the children of its first one.
  #processes(): number[] {
    const pid = this.#child?.pid;
    if (pid === undefined) return [];
    const children = spawnSync("ps", ["-o", "pid=", "--ppid", String(pid)], { encoding: "utf8" }).stdout ?? "";
    return [String(pid), ...children.trim().split(/\s+/)].filter((id) => id !== "").map(Number);
  }

  async #client(): Promise<Client> {
    if (this.#admin === undefined) {
      const admin = new Client({ host: "127.0.0.1", port: this.port, user: "headgate", database: "postgres" });
      // A lost connection is opened again by the next query.
      admin.on("error", () => undefined);
      admin.on("end", () => {
        if (this.#admin === admin) this.#admin = undefined;
      });
      await admin.connect();
      this.#admin = admin;
    }
    return this.#admin;
  }

  async #whenAnswering(child: ChildProcess): Promise<void> {
    const endMs = performance.now() + START_MS_MAX;
    while (performance.now() < endMs) {
      if (child.exitCode !== null) throw new Error(`postgres ended with code ${child.exitCode}`);
      try {
        await this.query("SELECT 1");
        return;
      } catch {
        // Not listening yet, or still recovering: asked again in a moment.
        await sleep(30);
      }
    }
    throw new Error(`postgres on port ${this.port} did not answer within ${START_MS_MAX} ms`);
  }
}

/** Installs the server and makes its first database cluster, unless both are there: before files that need it run in parallel. */
export function requirePostgres(): void {
  newCluster(findPrograms() ?? installPrograms());
}

/** A database cluster that was never used: initdb makes it once for all runs, in the project's .cache. */
function newCluster(programs: string): string {
  const version = /\d+(\.\d+)*/.exec(
    spawnSync(join(programs, "postgres"), ["--version"], { encoding: "utf8" }).stdout,
  )?.[0];
  const kept = join(CACHE, `postgres-${version}`);
  if (existsSync(kept)) return kept;
  const made = join(folderOfServers(), "data");
  const { status, stderr } = spawnSync(
    join(programs, "initdb"),
    ["-D", made, "-U", "headgate", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"],
    { encoding: "utf8", cwd: dirname(made), ...unprivileged() },
  );
  if (status !== 0) throw new Error(`initdb failed: ${(stderr ?? "").trim().split("\n").pop()}`);
  const copy = join(CACHE, `.postgres-${process.pid}`);
  mkdirSync(CACHE, { recursive: true });
  run("cp", "-Rp", made, copy);
  removeFolder(dirname(made));
  try {
    renameSync(copy, kept);
  } catch {
    // Another test file was quicker.
    rmSync(copy, { recursive: true });
  }
  return kept;
}

function copyCluster(from: string, to: string): void {
  run("cp", "-Rp", from, to);
  const identity = unprivileged();
  if (identity !== undefined) run("chown", "-R", `${identity.uid}:${identity.gid}`, to);
}

/** A folder that whoever runs the server may write into. */
function folderOfServers(): string {
  const directory = temporaryFolder("postgres");
  const identity = unprivileged();
  if (identity !== undefined) chownSync(directory, identity.uid, identity.gid);
  return directory;
}

function run(program: string, ...args: string[]): void {
  const { status, stderr } = spawnSync(program, args, { encoding: "utf8" });
  if (status !== 0) throw new Error(`${program} ${args.join(" ")} failed: ${stderr}`);
}

/** The folder of initdb and postgres: the newest of Debian's, or one of the PATH's. */
function findPrograms(): string | undefined {
  const versions = existsSync(DEBIAN_FOLDER) ? readdirSync(DEBIAN_FOLDER).filter((name) => /^\d+$/.test(name)) : [];
  const debian = versions
    .filter((version) => Number(version) >= VERSION_MIN)
    .sort((a, b) => Number(b) - Number(a))
    .map((version) => join(DEBIAN_FOLDER, version, "bin"));
  const folders = [...debian, ...(process.env.PATH ?? "").split(delimiter)];
  return folders.find((folder) => existsSync(join(folder, "initdb")) && existsSync(join(folder, "postgres")));
}

/** Installs Debian's package and returns the folder of its programs. Throws a plain sentence if that can't be done. */
function installPrograms(): string {
  if (spawnSync("apt-get", ["--version"], { stdio: "ignore" }).status !== 0) {
    throw new Error(`${WANTED}, and apt-get is not there to install it. Please install it by hand.`);
  }
  const sudo = process.getuid?.() === 0 ? [] : ["sudo", "-n"];
  for (const step of ["update -q", "install -y -q --no-install-recommends postgresql"]) {
    const [program = "", ...args] = [...sudo, "apt-get", ...step.split(" ")];
    const { status, stderr } = spawnSync(program, args, {
      encoding: "utf8",
      env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" },
    });
    if (status === 0) continue;
    const said = (stderr ?? "").trim().split("\n").pop();
    throw new Error(`${WANTED}, and \`${[program, ...args].join(" ")}\` failed: ${said || "it could not be run"}.`);
  }
  const found = findPrograms();
  if (found === undefined) throw new Error(`${WANTED}; apt-get installed it somewhere else.`);
  return found;
}

/** Somebody other than root to run the server as, if we are root: PostgreSQL's own user, or nobody. */
function unprivileged(): Identity | undefined {
  if (process.getuid?.() !== 0) return undefined;
  for (const name of ["postgres", "nobody"]) {
    const [uid, gid] = ["-u", "-g"].map((what) => Number(spawnSync("id", [what, name], { encoding: "utf8" }).stdout));
    if (uid !== undefined && gid !== undefined && uid > 0) return { uid, gid };
  }
  throw new Error(`${WANTED} and, when run as root, a user called postgres or nobody to run it as.`);
}
