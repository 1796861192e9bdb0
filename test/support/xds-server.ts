// A control plane on go-control-plane's snapshot cache (test/xds/server), built once into .cache/bin where Go is installed.

import { type ChildProcess, execFileSync, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readdirSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { ownProcess, showOnFailure } from "./child-processes.ts";
import { endWithTest } from "./ends.ts";

const SOURCE = resolve(import.meta.dirname, "../xds/server");
const BIN = resolve(import.meta.dirname, "../../.cache/bin");

/** The built program; undefined, said aloud, where there is no Go. */
export function xdsServerProgram(): string | undefined {
  const path = join(BIN, "xds-server");
  const newest = Math.max(...readdirSync(SOURCE).map((name) => statSync(join(SOURCE, name)).mtimeMs));
  if (existsSync(path) && statSync(path).mtimeMs >= newest) return path;
  if (spawnSync("go", ["version"]).status !== 0) {
    process.stdout.write("not tried: the control plane of test/xds/server must be built, and Go is not installed\n");
    return undefined;
  }
  mkdirSync(BIN, { recursive: true });
  execFileSync("go", ["build", "-o", path, "."], { cwd: SOURCE, stdio: "pipe" });
  return path;
}

/** What a client said. */
export interface SeenRequest {
  readonly stream: number;
  readonly node: string;
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly type: string;
  readonly names: number;
  readonly version: string;
  readonly nonce: string;
  readonly error: string;
}

/** What happened at the control plane, in order. */
export type SeenEvent =
  | ({ readonly event: "request" } & SeenRequest)
  | { readonly event: "open"; readonly stream: number; readonly headers: Readonly<Record<string, readonly string[]>> }
  | { readonly event: "response"; readonly stream: number; readonly version: string; readonly nonce: string }
  | { readonly event: "closed"; readonly stream: number }
  | { readonly event: "fault"; readonly message: string }
  | { readonly event: "listening"; readonly port: number };

export interface XdsServerOptions {
  readonly port?: number;
  readonly node?: string;
  /** Least time between pings that it takes; default: grpc-go's five minutes, then it sends the client away. */
  readonly pingsFromMs?: number;
  readonly tls?: { readonly cert: string; readonly key: string; readonly ca: string };
}

/** A set to serve: RateLimitConfig messages in proto3 JSON, and bytes in base64 for what no message says. */
export interface ServedSet {
  readonly version: string;
  readonly resources?: readonly object[];
  readonly raw?: readonly string[];
}

export interface XdsServer {
  readonly port: number;
  readonly seen: readonly SeenEvent[];
  readonly requests: () => readonly SeenRequest[];
  /** Resolves when the set is on its way. */
  serve(set: ServedSet): Promise<void>;
  /** The first request that `matches`, waited for. */
  request(matches: (request: SeenRequest) => boolean): Promise<SeenRequest>;
  /** Ends at once, as a killed process does. */
  stop(): Promise<void>;
}

/** Starts it with nothing to serve. */
export async function startXdsServer(program: string, options: XdsServerOptions = {}): Promise<XdsServer> {
  const { port = 0, node = "headgate-test", pingsFromMs = 0, tls } = options;
  const args = ["-listen", `127.0.0.1:${port}`, "-node", node];
  if (pingsFromMs > 0) args.push("-pings-from", `${pingsFromMs}ms`);
  if (tls !== undefined) args.push("-cert", tls.cert, "-key", tls.key, "-ca", tls.ca);
  const child = ownProcess(spawn(program, args, { stdio: ["pipe", "pipe", "pipe"] }));
  const seen: SeenEvent[] = [];
  const faults: string[] = [];
  showOnFailure(`control plane ${child.pid}`, () =>
    [...faults, ...seen.map((event) => JSON.stringify(event))].join("\n"),
  );
  createInterface({ input: pipeOf(child.stderr) }).on("line", (line) => faults.push(line));
  createInterface({ input: pipeOf(child.stdout) }).on("line", (line) => seen.push(JSON.parse(line) as SeenEvent));
  const listening = await waitFor(
    () => seen.find((event) => event.event === "listening"),
    () => `the control plane did not listen: ${faults.join("\n")}`,
  );
  const requests = () => seen.filter((event) => event.event === "request");
  return {
    port: listening.port,
    seen,
    requests,
    async serve(set) {
      const line = `${JSON.stringify(set)}\n`;
      await new Promise((resolve) => child.stdin?.write(line, resolve));
    },
    request: (matches) =>
      waitFor(
        () => requests().find(matches),
        () => `the control plane saw no such request, but\n${seen.map((event) => JSON.stringify(event)).join("\n")}`,
      ),
    stop: endWithTest(async () => {
      if (child.exitCode !== null || child.signalCode !== null) return;
      child.kill("SIGKILL");
      await once(child, "exit");
    }),
  };
}

/** Only for what never comes: a busy machine may take long. */
const WAIT_MS = 30_000;
const LOOK_MS = 5;

async function waitFor<T>(find: () => T | undefined, why: () => string): Promise<T> {
  for (let looks = 0; looks < WAIT_MS / LOOK_MS; looks++) {
    const found = find();
    if (found !== undefined) return found;
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
  throw new Error(why());
}

function pipeOf(pipe: ChildProcess["stdout"]): NonNullable<ChildProcess["stdout"]> {
  if (pipe === null) throw new Error("the control plane has no such pipe");
  return pipe;
}
