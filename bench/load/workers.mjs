// How calls spread over the workers of one port (WORKERS), for 1, 2, 4 and 16 connections: the built service with two workers
// and a Redis of its own, and each worker's part of the calls. What counts is the part: load, Redis and workers share the
// machine's cores, so the rate is shown but says little.
// Node 24 or newer runs it, because older ones have no workers.
// Then what a call costs the process with one worker and with several, each with as many calls per second.
//   node bench/load/workers.mjs [--workers 2] [--rounds 3] [--seconds 3] [--rate 4000] [--costs: nothing else]

import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { parseArgs } from "node:util";
import { Client, credentials, Metadata } from "@grpc/grpc-js";
import { startRedis } from "../harness/redis.mjs";
import { busyness, median, printTable, progress, writeResults } from "../harness/report.mjs";
import { requireProgram } from "../harness/require-program.mjs";
import { temporaryFolder } from "../harness/temporary-folder.mjs";
import { loadDist } from "./dist.mjs";
import { call } from "./h2load.mjs";
import { rulesText } from "./rules.mjs";

const { values } = parseArgs({
  options: {
    workers: { type: "string", default: "2" },
    rounds: { type: "string", default: "3" },
    seconds: { type: "string", default: "3" },
    rate: { type: "string", default: "4000" },
    costs: { type: "boolean", default: false },
  },
});
const workers = Number(values.workers);
const rounds = Number(values.rounds);
const seconds = Number(values.seconds);
/** Calls per second for each worker where their cost is measured. */
const rate = Number(values.rate);
const SHAPES = [
  ...[1, 2, 4, 16].map((connections) => ({ name: `${connections}`, connections })),
  // The first and the third go to one worker.
  { name: "4, the two busy ones at one worker", connections: 4, busy: (i) => i % 2 === 0 },
];
/** Calls under way at once, over all connections. */
const STREAMS = 64;
/** Workers tell their counts once a second; the first ones are those of the start. */
const REPORT_MS = 1_200;
const { SHOULD_RATE_LIMIT_PATH } = await loadDist("grpc/transport/load-proto.js");
/** Calls about different tenants, so that no bucket is hotter than others. */
const MESSAGES = Array.from({ length: 256 }, (_, i) => requestAbout(String(i).padStart(3, "0")));
const MAIN = join(resolve(process.env.HEADGATE_DIST ?? resolve(import.meta.dirname, "../../dist")), "main.js");

requireProgram("redis-server");
const before = busyness();
const redis = await startRedis();
const results = [];
let costs;
try {
  costs = await measureCosts();
  if (!values.costs) for (const shape of SHAPES) results.push(await measure(shape));
} finally {
  progress("");
  await redis.stop();
}
if (results.length > 0) {
  printTable(
    `Calls by worker, ${workers} workers, ${rounds} rounds of ${seconds} s, ${STREAMS} calls under way`,
    results.map(({ name, perSecond, shares, busiest }) => ({
      connections: name,
      "calls/s": perSecond.toLocaleString("en"),
      "parts of the calls, busiest first": shares.map((share) => `${Math.round(share * 100)} %`).join(" "),
      "busiest, of an even part": busiest.toFixed(2),
    })),
  );
}
printTable(
  `Cost of a call, ${rate} calls/s for each worker, ${rounds} rounds of ${seconds} s`,
  costs.map(({ workers: count, cpuMicros, ratio, perScript }) => ({
    workers: count,
    "calls per script of Redis": perScript.toFixed(1),
    "us of the process's CPU per call": cpuMicros.toFixed(1),
    "of one worker's": ratio.toFixed(2),
  })),
);
const command = `node bench/load/workers.mjs ${process.argv.slice(2).join(" ")}`.trim();
const file = writeResults("workers", command, {
  workers,
  rounds,
  seconds,
  busy: { before, after: busyness() },
  costs,
  results,
});
process.stdout.write(`\nwritten to ${file.slice(file.indexOf("bench/"))}\n`);

async function measure({ name, connections, busy = (i) => i < connections }) {
  const runs = [];
  for (let round = 1; round <= rounds; round++) {
    progress(`${name}: round ${round} of ${rounds}`);
    runs.push(await measureOnce({ connections, busy }));
  }
  const shares = runs[0].shares.map((_, i) => median(runs.map((run) => run.shares[i])));
  return {
    name,
    perSecond: median(runs.map((run) => Math.round(run.perSecond))),
    shares,
    busiest: median(runs.map((run) => run.shares[0] * workers)),
    rounds: runs,
  };
}

/** One worker and several in turn, so that what else the machine does meets both. */
async function measureCosts() {
  const counts = [1, workers];
  const runs = counts.map(() => []);
  for (let round = 1; round <= rounds; round++) {
    for (const [i, count] of counts.entries()) {
      progress(`cost with ${count} workers: round ${round} of ${rounds}`);
      const service = await startService(count);
      const asked = { message: "spread", keys: 10_000, connections: 4 * count, rate: rate * count };
      const counted = { redisPorts: [redis.port], redisPids: [redis.pid] };
      const { cpuMicrosPerCall, redis: perCall } = await call(service, {
        ...asked,
        ...counted,
        warmUpSeconds: 2,
        seconds,
      });
      runs[i].push({ cpuMicros: cpuMicrosPerCall, perScript: 1 / perCall.scripts });
      await service.stop();
    }
  }
  const [alone] = runs.map((of) => median(of.map(({ cpuMicros }) => cpuMicros)));
  return counts.map((count, i) => {
    const cpuMicros = median(runs[i].map((run) => run.cpuMicros));
    const perScript = median(runs[i].map((run) => run.perScript));
    return { workers: count, cpuMicros, ratio: cpuMicros / alone, perScript, rounds: runs[i] };
  });
}

/** Asks on all busy connections, and counts for `seconds`. */
async function measureOnce({ connections, busy }) {
  const service = await startService();
  const clients = Array.from({ length: connections }, () => openClient(service.port));
  try {
    // One after the other: the supervisor spreads them as they come.
    for (const client of clients) await ask(client, 0);
    const askers = clients.filter((_, i) => busy(i));
    let isOver = false;
    const askOn = async (client, first) => {
      for (let i = first; !isOver; i += STREAMS) await ask(client, i);
    };
    const asking = Array.from({ length: STREAMS }, (_, i) => askOn(askers[i % askers.length], i));
    await pause(REPORT_MS);
    const before = await countsOf(service);
    await pause(seconds * 1_000);
    const after = await countsOf(service);
    isOver = true;
    await Promise.all(asking);
    const calls = after.calls.map((count, i) => count - before.calls[i]);
    const all = calls.reduce((sum, count) => sum + count, 0);
    return {
      perSecond: all / seconds,
      shares: calls.map((count) => count / all).sort((one, other) => other - one),
    };
  } finally {
    for (const client of clients) client.close();
    await service.stop();
  }
}

async function countsOf({ httpPort }) {
  const page = await (await fetch(`http://127.0.0.1:${httpPort}/metrics`)).text();
  const calls = [...page.matchAll(/^headgate_worker_calls_total\{.*\} (\d+)$/gm)].map(([, count]) => Number(count));
  return { calls };
}

// Each with a connection of its own.
function openClient(port) {
  return new Client(`127.0.0.1:${port}`, credentials.createInsecure(), { "grpc.use_local_subchannel_pool": 1 });
}

function ask(client, i) {
  const same = (bytes) => bytes;
  const message = MESSAGES[i % MESSAGES.length];
  return new Promise((resolve, reject) => {
    client.makeUnaryRequest(SHOULD_RATE_LIMIT_PATH, same, same, message, new Metadata(), (error, answer) => {
      if (error === null && answer[0] === 0x08 && answer[1] === 1) resolve();
      else reject(error ?? new Error(`expected the answer OK, got ${answer.toString("hex")}`));
    });
  });
}

function pause(ms) {
  return new Promise((wake) => setTimeout(wake, ms));
}

async function startService(count = workers) {
  const rulesDir = temporaryFolder();
  writeFileSync(join(rulesDir, "rules.yaml"), rulesText("hot"));
  const child = spawn(process.execPath, [MAIN, "serve"], {
    stdio: ["ignore", "pipe", "inherit"],
    env: {
      ...process.env,
      WORKERS: String(count),
      RULES_DIR: rulesDir,
      REDIS_URL: `127.0.0.1:${redis.port}`,
      // A bench measures, it does not degrade: an answer that takes long counts as long.
      STORE_DEADLINE: "10s",
      HOST: "127.0.0.1",
      GRPC_HOST: "127.0.0.1",
      PORT: "0",
      GRPC_PORT: "0",
      SHUTDOWN_DELAY: "0s",
    },
  });
  const [port, httpPort] = await Promise.race([
    portsOf(child.stdout),
    once(child, "exit").then(([code]) => {
      throw new Error(`the service ended with ${code} before it listened`);
    }),
  ]);
  return {
    port,
    httpPort,
    pid: child.pid,
    async stop() {
      child.kill("SIGTERM");
      await once(child, "exit");
    },
  };
}

function portsOf(stdout) {
  return new Promise((found) => {
    createInterface({ input: stdout }).on("line", (line) => {
      const match = /"grpc":"[^"]*:(\d+)","http":"[^"]*:(\d+)"/.exec(line);
      if (match !== null) found(match.slice(1).map(Number));
    });
  });
}

/** A RateLimitRequest about one tenant. */
function requestAbout(tenant) {
  const text = (field, value) => Buffer.concat([Buffer.from([field * 8 + 2, value.length]), Buffer.from(value)]);
  const entry = Buffer.concat([text(1, "tenant"), text(2, tenant)]);
  return Buffer.concat([text(1, "edge"), text(2, text(1, entry))]);
}
