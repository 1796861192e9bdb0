// What the mirror adds to a call: the same calls straight to a Headgate and through a mirror before it, turn by turn in one run.
//   npm run build && node bench/mirror/overhead.mjs [--write]
// All on one machine: two services, the mirror and this client share its cores. --write keeps the figures under bench/results.

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:http2";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { printTable, writeResults } from "../harness/report.mjs";

const MAIN = resolve(process.env.HEADGATE_DIST ?? resolve(import.meta.dirname, "../../dist"), "main.js");
const PATH = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
const ROUNDS = 20;
const CALLS_PER_ROUND = 500;

const rules = mkdtempSync(join(tmpdir(), "headgate-mirror-bench-"));
const children = [];
process.on("exit", () => {
  for (const child of children) child.kill("SIGKILL");
  rmSync(rules, { recursive: true, force: true });
});

function start(args, env, pattern) {
  const child = spawn(process.execPath, [MAIN, ...args], { env: { PATH: process.env.PATH, ...env } });
  children.push(child);
  return new Promise((found, failed) => {
    child.once("exit", (code) => failed(new Error(`headgate ${args[0]} ended with ${code}`)));
    for (const stream of [child.stdout, child.stderr]) {
      createInterface({ input: stream }).on("line", (line) => {
        const port = pattern.exec(line)?.[1];
        if (port !== undefined) found(Number(port));
      });
    }
  });
}

writeFileSync(
  join(rules, "rules.yaml"),
  "domain: edge\ndescriptors:\n  - { key: user, rate_limit: { requests_per_unit: 4000000000, unit: year } }\n",
);

function startService() {
  return start(
    ["serve"],
    {
      HOST: "127.0.0.1",
      GRPC_HOST: "127.0.0.1",
      PORT: "0",
      GRPC_PORT: "0",
      RULES_DIR: rules,
      SHUTDOWN_DELAY: "0s",
      LOG_FORMAT: "json",
    },
    /"grpc":"[^"]*:(\d+)"/,
  );
}

const field = (number, bytes) => Buffer.concat([Buffer.from([(number << 3) | 2, bytes.length]), bytes]);
const entry = Buffer.concat([field(1, Buffer.from("user")), field(2, Buffer.from("somebody"))]);
const message = Buffer.concat([field(1, Buffer.from("edge")), field(2, field(1, entry))]);
const body = Buffer.concat([Buffer.from([0, 0, 0, 0, message.length]), message]);

function call(session) {
  return new Promise((done, failed) => {
    const startedMs = performance.now();
    const stream = session.request({
      ":method": "POST",
      ":path": PATH,
      "content-type": "application/grpc",
      te: "trailers",
    });
    let status;
    stream.on("response", (headers) => {
      status = headers["grpc-status"];
    });
    stream.on("trailers", (trailers) => {
      status = trailers["grpc-status"];
    });
    stream.on("data", () => undefined);
    stream.on("end", () => {
      if (status === "0") done((performance.now() - startedMs) * 1_000);
      else
        setImmediate(() =>
          status === "0" ? done((performance.now() - startedMs) * 1_000) : failed(new Error(`grpc-status ${status}`)),
        );
    });
    stream.on("error", failed);
    stream.end(body);
  });
}

async function round(session, inFlight) {
  const found = [];
  let left = CALLS_PER_ROUND;
  const run = async () => {
    while (left-- > 0) found.push(await call(session));
  };
  await Promise.all(Array.from({ length: inFlight }, run));
  return found;
}

function quantiles(values) {
  const sorted = values.sort((a, b) => a - b);
  const at = (share) => Math.round(sorted[Math.floor(sorted.length * share)] ?? 0);
  return { p50_us: at(0.5), p99_us: at(0.99), calls: sorted.length };
}

const answering = await startService();
const compared = await startService();
const common = [
  "mirror",
  "--listen",
  "127.0.0.1:0",
  "--http",
  "127.0.0.1:0",
  "--answer-from",
  `127.0.0.1:${answering}`,
];
const startMirror = (with_) => start([...common, ...with_], {}, /grpc=127\.0\.0\.1:(\d+)/);
const ways = {
  direct: answering,
  "through a mirror, equal answers": await startMirror(["--compare-with", `127.0.0.1:${compared}`]),
  "through a mirror, compared target away": await startMirror(["--compare-with", "127.0.0.1:1"]),
};
const sessions = Object.entries(ways).map(([name, port]) => [name, connect(`http://127.0.0.1:${port}`)]);
const rows = [];
for (const inFlight of [1, 16]) {
  const found = new Map(sessions.map(([name]) => [name, []]));
  for (const [, session] of sessions) await round(session, inFlight);
  for (let i = 0; i < ROUNDS; i++) {
    for (const [name, session] of sessions) found.get(name).push(...(await round(session, inFlight)));
  }
  for (const [name, values] of found) rows.push({ way: name, in_flight: inFlight, ...quantiles(values) });
}
printTable("latency of one call, microseconds", rows);
if (process.argv.includes("--write")) {
  console.log(writeResults("mirror-overhead", "node bench/mirror/overhead.mjs --write", rows));
}
for (const [, session] of sessions) session.destroy();
process.exit(0);
