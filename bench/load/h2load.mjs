// Runs h2load (Debian: nghttp2-client) against one server, both pinned to a core of their own where the system can.

import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";
import { Client, credentials, Metadata } from "@grpc/grpc-js";
import { cpuMicrosOf } from "../harness/cpu-time.mjs";
import { CORE, pinned, works } from "../harness/pin.mjs";
import { loadDist } from "./dist.mjs";

const run = promisify(execFile);
const ROOT = resolve(import.meta.dirname, "../..");
const CACHE = join(ROOT, ".cache");
const WARM_UP_SECONDS = 1;
/** A run of h2load that takes this much longer than it was told is ended. */
const GRACE_SECONDS = 10;

/** A running server: its port, the CPU time it has used, and how to end it. */
export async function startServer(kind, { profile = false, env = {} } = {}) {
  const flags = profile ? ["--cpu-prof", `--cpu-prof-dir=${join(CACHE, "profiles")}`] : [];
  const [command, ...args] = pinned(CORE.server, [
    process.execPath,
    ...flags,
    join(import.meta.dirname, "server.mjs"),
    kind,
  ]);
  const child = spawn(command, args, { stdio: ["ignore", "pipe", "inherit"], env: { ...process.env, ...env } });
  const port = await Promise.race([
    portOf(child.stdout),
    once(child, "exit").then(([code]) => {
      throw new Error(`the server "${kind}" ended with ${code} before it listened`);
    }),
  ]);
  return {
    port,
    pid: child.pid,
    cpuMicros: () => cpuMicrosOf(child.pid),
    async stop() {
      // One that has ended by itself says so no more.
      if (child.exitCode !== null) return;
      child.kill("SIGTERM");
      await once(child, "exit");
    },
  };
}

// The first line that is a number; lines of the service's log go past it, to the screen.
function portOf(stdout) {
  return new Promise((resolve) => {
    createInterface({ input: stdout }).on("line", (line) => {
      if (/^\d+$/.test(line)) resolve(Number(line));
      else process.stderr.write(`${line}\n`);
    });
  });
}

/** Fails unless a server answers a call with OK: h2load looks at HTTP statuses only, which errors of gRPC have too. */
export async function checkAnswer(port) {
  const { SHOULD_RATE_LIMIT_PATH } = await loadDist("grpc/transport/load-proto.js");
  const client = new Client(`127.0.0.1:${port}`, credentials.createInsecure());
  const same = (bytes) => bytes;
  const answer = await new Promise((resolve, reject) => {
    client.makeUnaryRequest(SHOULD_RATE_LIMIT_PATH, same, same, requestBytes(), new Metadata(), (error, bytes) =>
      error === null ? resolve(bytes) : reject(error),
    );
  });
  client.close();
  if (answer[0] !== 0x08 || answer[1] !== 1) throw new Error(`expected the answer OK, got ${answer.toString("hex")}`);
}

/**
 * Calls per second, CPU time of the server and mean latency of a run of `seconds`, after a warm-up. `through` is the port of
 * an Envoy that asks the server about each request; without it h2load asks the server itself.
 */
export async function load(server, shape, tries = 3) {
  const { seconds, connections = 4, streams = 50, headers = [], warmUpSeconds = WARM_UP_SECONDS, through } = shape;
  const { SHOULD_RATE_LIMIT_PATH } = await loadDist("grpc/transport/load-proto.js");
  const target =
    through === undefined
      ? [
          `-d${messageFile()}`,
          ...["content-type: application/grpc", "te: trailers", ...headers].flatMap((header) => ["-H", header]),
          `http://127.0.0.1:${server.port}${SHOULD_RATE_LIMIT_PATH}`,
        ]
      : [`http://127.0.0.1:${through}/`];
  const args = [
    "-t1",
    `-c${connections}`,
    `-m${streams}`,
    `--warm-up-time=${Math.round(warmUpSeconds * 1_000)}ms`,
    `-D${seconds}`,
    ...target,
  ];
  const [command, ...rest] = pinned(CORE.load, ["h2load", ...args]);
  const cpuWhenWarm = new Promise((resolve) => setTimeout(() => resolve(server.cpuMicros()), warmUpSeconds * 1_000));
  // Seen on a busy machine: an h2load that waits for a connection for ever.
  const timeout = (warmUpSeconds + seconds + GRACE_SECONDS) * 1_000;
  const { stdout } = await run(command, rest, { timeout }).catch((error) => {
    if (error.killed && tries > 1) return { stdout: undefined };
    throw error;
  });
  if (stdout === undefined) return load(server, shape, tries - 1);
  const cpuMicros = server.cpuMicros() - (await cpuWhenWarm);
  const failed = stdout.match(/(\d+) failed, (\d+) errored, (\d+) timeout/);
  if (failed === null || failed.slice(1).some((count) => count !== "0")) throw new Error(`h2load failed:\n${stdout}`);
  const calls = Number(stdout.match(/(\d+) succeeded/)?.[1]);
  // Seen on a busy machine: a run that ends well and has counted no call. It says nothing about the server.
  if (calls === 0 && tries > 1) return load(server, shape, tries - 1);
  if (!(calls > 0)) throw new Error(`h2load made no call:\n${stdout}`);
  const [, , mean] = stdout.match(/time for request:\s+(\S+)\s+(\S+)\s+(\S+)/)?.slice(1) ?? [];
  return { cpuMicrosPerCall: cpuMicros / calls, perSecond: calls / seconds, meanLatency: mean ?? "unknown" };
}

/** Runs caller.mjs with `settings` against a server, on the core of the load; resolves to its report. */
export async function call(server, settings, tries = 3) {
  const { SHOULD_RATE_LIMIT_PATH } = await loadDist("grpc/transport/load-proto.js");
  const all = { port: server.port, serverPid: server.pid, path: SHOULD_RATE_LIMIT_PATH, ...settings };
  const program = [process.execPath, join(import.meta.dirname, "caller.mjs"), JSON.stringify(all)];
  const [command, ...args] = pinned(CORE.load, program);
  const { stdout } = await run(command, args);
  const report = JSON.parse(stdout);
  // Of a busy machine a short run may see nothing at all.
  return report.calls === 0 && tries > 1 ? call(server, settings, tries - 1) : report;
}

/** One descriptor of one entry, as Envoy would send it. */
function requestBytes() {
  const text = (field, value) => Buffer.concat([Buffer.from([field * 8 + 2, value.length]), Buffer.from(value)]);
  const entry = Buffer.concat([text(1, "tenant"), text(2, "acme")]);
  return Buffer.concat([text(1, "edge"), text(2, text(1, entry))]);
}

function messageFile() {
  const message = requestBytes();
  const head = Buffer.alloc(5);
  head.writeUInt32BE(message.length, 1);
  mkdirSync(CACHE, { recursive: true });
  const file = join(CACHE, "bench-request.bin");
  writeFileSync(file, Buffer.concat([head, message]));
  return file;
}

/** Fails with one sentence if h2load is missing. */
export function requireH2load() {
  if (!works("h2load", ["--version"]))
    throw new Error("h2load was not found on the PATH; install it (Debian: nghttp2-client)");
}
