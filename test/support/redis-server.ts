// A real redis-server of a test's own: on a free port, without files that outlive it, to be stopped, killed and paused.
// REDIS_SERVER names another program in its place: valkey-server, or another version.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, existsSync, openSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import type { RedisTarget } from "../../src/stores/redis/connect.ts";
import { ownProcess, showOnFailure } from "./child-processes.ts";
import { endWithTest } from "./ends.ts";
import { removeFolder, temporaryFolder } from "./temporary-folder.ts";

const START_MS_MAX = 10_000;

interface ServerOptions {
  readonly args?: readonly string[];
  readonly password?: string | undefined;
  readonly sentinelConfig?: string;
  /** Added to its environment. */
  readonly env?: Readonly<Record<string, string>>;
}

/** Certificate and authority of servers. */
export interface ServerTls {
  readonly certFile: string;
  readonly keyFile: string;
  readonly caFile: string;
}

/** One server. `start` resolves when it answers. */
export class RedisServer {
  readonly port: number;
  /** The port on which it speaks TLS, if whoever started it has given it one. */
  tlsPort: number | undefined;
  /** Its working directory: sockets and certificates of a test may lie there too. */
  readonly directory: string;
  readonly #args: readonly string[];
  readonly #password: string | undefined;
  readonly #sentinelConfig: string | undefined;
  readonly #env: Readonly<Record<string, string>>;
  readonly #log: string;
  /** Its log, once its directory is gone. */
  #said = "";
  #child: ChildProcess | undefined;
  #admin: Redis | undefined;

  private constructor(port: number, options: ServerOptions) {
    this.port = port;
    this.directory = temporaryFolder("headgate-redis");
    this.#args = options.args ?? [];
    this.#password = options.password;
    this.#sentinelConfig = options.sentinelConfig;
    this.#env = options.env ?? {};
    this.#log = join(this.directory, "log");
    showOnFailure(`redis-server on port ${port}`, () => this.#read());
    if (options.sentinelConfig !== undefined) {
      const config = `port ${port}\nbind 127.0.0.1\ndir ${this.directory}\nloglevel warning\n${options.sentinelConfig}\n`;
      writeFileSync(join(this.directory, "sentinel.conf"), config);
    }
  }

  /** Starts a server on a free port; `args` are added to its command line, such as `--maxmemory 2mb`. */
  static async start(
    args: readonly string[] = [],
    password?: string,
    env: Readonly<Record<string, string>> = {},
  ): Promise<RedisServer> {
    return await RedisServer.#run({ args, password, env });
  }

  static async #run(options: ServerOptions): Promise<RedisServer> {
    const server = new RedisServer(await freePort(), options);
    endWithTest(() => server.stop());
    await server.restart();
    return server;
  }

  /** Starts a sentinel on a free port; `config` is what its file says besides the port. */
  static async startSentinel(config: string, password?: string): Promise<RedisServer> {
    return await RedisServer.#run({ sentinelConfig: config, password });
  }

  /** How a store reaches it. */
  target(overrides: Partial<RedisTarget> = {}): RedisTarget {
    return {
      address: { kind: "tcp", host: "127.0.0.1", port: this.port },
      database: 0,
      login: undefined,
      loginFile: undefined,
      tls: undefined,
      connectTimeoutMs: 2_000,
      ...overrides,
    };
  }

  /** Sends one command and resolves with its reply; text as strings. */
  async command(...args: readonly (string | number | Buffer)[]): Promise<unknown> {
    const [name = "PING", ...rest] = args;
    return await this.#client().call(String(name), [...rest]);
  }

  /** Sends one command and resolves with its reply; text as its bytes. */
  async commandForBytes(...args: readonly (string | number | Buffer)[]): Promise<unknown> {
    const [name = "PING", ...rest] = args;
    return await this.#client().callBuffer(String(name), [...rest]);
  }

  /** Empties it. */
  async flush(): Promise<void> {
    await this.command("FLUSHALL");
  }

  /** True between `pause` and `resume`. */
  isPaused = false;

  /** Stops it from running, connections stay open: it hangs. */
  pause(): void {
    this.isPaused = true;
    this.#child?.kill("SIGSTOP");
  }

  /** Lets it run on after `pause`. */
  resume(): void {
    this.isPaused = false;
    this.#child?.kill("SIGCONT");
  }

  /** Has another process let it run on `afterMs` from now, whatever this one does meanwhile. To be called after `pause`. */
  resumeAside(afterMs: number): void {
    this.isPaused = false;
    const script = `sleep ${afterMs / 1_000}; kill -CONT ${this.#child?.pid}`;
    ownProcess(spawn("sh", ["-c", script], { stdio: "ignore" }));
  }

  /** Ends it at once, as a crash does. */
  async kill(): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    this.isPaused = false;
    this.#admin?.disconnect();
    this.#admin = undefined;
    if (child === undefined) return;
    const exited = once(child, "exit");
    child.kill("SIGKILL");
    await exited;
  }

  /** True unless it was killed. */
  get isRunning(): boolean {
    return this.#child !== undefined;
  }

  /** Starts it again on the same port, empty but for what its own files say of a cluster or of Sentinel. */
  async restart(): Promise<void> {
    await this.kill();
    const log = openSync(this.#log, "a");
    const child = ownProcess(
      spawn(process.env.REDIS_SERVER ?? "redis-server", this.#commandLine(), {
        stdio: ["ignore", log, log],
        env: { ...process.env, ...this.#env },
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

  #commandLine(): string[] {
    const { port, directory } = this;
    if (this.#sentinelConfig !== undefined) return [join(directory, "sentinel.conf"), "--sentinel"];
    const line = `--port ${port} --bind 127.0.0.1 --dir ${directory} --appendonly no --loglevel warning`.split(" ");
    return [
      ...line,
      "--save",
      "",
      ...(this.#password === undefined ? [] : ["--requirepass", this.#password]),
      ...this.#args,
    ];
  }

  #read(): string {
    return existsSync(this.#log) ? readFileSync(this.#log, "utf8") : this.#said;
  }

  #client(): Redis {
    if (this.#admin === undefined || this.#admin.status === "end") {
      const login = this.#password === undefined ? {} : { password: this.#password };
      this.#admin = new Redis({ port: this.port, host: "127.0.0.1", protocol: 2, retryStrategy: () => null, ...login });
      // Commands report the failure themselves.
      this.#admin.on("error", () => undefined);
    }
    return this.#admin;
  }

  async #whenAnswering(child: ChildProcess): Promise<void> {
    const endMs = performance.now() + START_MS_MAX;
    while (performance.now() < endMs) {
      if (child.exitCode !== null)
        throw new Error(`redis-server ended with code ${child.exitCode}: ${this.#commandLine()}`);
      try {
        if ((await this.command("PING")) === "PONG") return;
      } catch {
        // Not listening yet, or still loading: asked again in a moment.
        await sleep(20);
      }
    }
    throw new Error(`redis-server on port ${this.port} did not answer within ${START_MS_MAX} ms`);
  }
}

/** Arguments for a TLS port of its own; none without `tls`. Clients need no certificate. */
export async function tlsArguments(
  tls: ServerTls | undefined,
): Promise<{ readonly args: readonly string[]; readonly port: number | undefined }> {
  if (tls === undefined) return { args: [], port: undefined };
  const port = await freePort();
  const { certFile, keyFile, caFile } = tls;
  const files = ["--tls-cert-file", certFile, "--tls-key-file", keyFile, "--tls-ca-cert-file", caFile];
  return { args: ["--tls-port", String(port), ...files, "--tls-auth-clients", "no"], port };
}

/** Command line arguments as lines of a configuration file. */
export function configLines(args: readonly string[]): string[] {
  return args.join(" ").split("--").slice(1);
}

const givenPorts = new Set<number>();
/** Below those that systems give to whoever asks for any: those go to others, connections among them, before they are used. */
const PORTS = { first: 11_000, count: 10_000 };

/** A port that nobody listens on; never the same twice, because whoever got it may not listen yet. */
export async function freePort(): Promise<number> {
  const port = PORTS.first + Math.floor(Math.random() * PORTS.count);
  if (givenPorts.has(port)) return await freePort();
  const server = createServer();
  const isFree = await new Promise<boolean>((resolve) => {
    server.once("error", () => resolve(false));
    server.listen(port, "127.0.0.1", () => resolve(true));
  });
  if (!isFree) return await freePort();
  server.close();
  await once(server, "close");
  givenPorts.add(port);
  return port;
}
