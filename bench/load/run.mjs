// `npm run bench:load`: every shape of shapes.mjs on the yardstick and on the service in turn, several rounds, as ratios, with
// the goals beside them; then the tail at half of the load that saturates.
//   node bench/load/run.mjs [--rounds 3] [--seconds 2] [--only TEXT] [--no-tail] [--profile]
// --profile has node write CPU profiles of the servers to .cache/profiles; docs/performance.md says how to read them.

import { parseArgs } from "node:util";
import { startRedis } from "../harness/redis.mjs";
import { busyness, median, printTable, progress, writeResults } from "../harness/report.mjs";
import { requireProgram } from "../harness/require-program.mjs";
import { call, isPinned, load, startServer } from "./h2load.mjs";
import { NOT_MEASURED, SHAPES, TAIL_GOAL_MS } from "./shapes.mjs";

const { values } = parseArgs({
  options: {
    rounds: { type: "string", default: "3" },
    seconds: { type: "string", default: "2" },
    only: { type: "string", default: "" },
    "no-tail": { type: "boolean", default: false },
    profile: { type: "boolean", default: false },
  },
});
const rounds = Number(values.rounds);
const seconds = Number(values.seconds);
const shapes = SHAPES.filter(({ name }) => name.includes(values.only));

requireProgram("h2load");
if (shapes.some(({ redis }) => redis)) requireProgram("redis-server");

const before = busyness();
const redis = shapes.some((shape) => shape.redis) ? await startRedis() : undefined;
const results = [];
let tail;
try {
  for (const shape of shapes) results.push(await measureShape(shape));
  if (!values["no-tail"]) tail = await measureTail();
} finally {
  progress("");
  await redis?.stop();
}
print();
const command = `node bench/load/run.mjs ${process.argv.slice(2).join(" ")}`.trim();
const report = { rounds, seconds, pinned: isPinned(), busy: { before, after: busyness() }, shapes: results, tail };
const name = values.only === "" ? "bench" : `bench-${values.only.replaceAll(/[^a-z0-9]+/gi, "-")}`;
const file = writeResults(name, command, report);
process.stdout.write(`\nnot measured: ${NOT_MEASURED.join(", ")}\nwritten to ${file.slice(file.indexOf("bench/"))}\n`);

async function measureShape(shape) {
  const yardstick = [];
  const service = [];
  for (let round = 1; round <= rounds; round++) {
    progress(`${shape.name}: round ${round} of ${rounds}`);
    yardstick.push(await measureOne("yardstick", shape));
    service.push(await measureOne("service, fast lane", shape));
  }
  const rates = (runs) => runs.map(({ perSecond }) => Math.round(perSecond));
  const cpu = (runs) => runs.map(({ cpuMicrosPerCall }) => cpuMicrosPerCall);
  const cpuRatios = cpu(service).map((micros, round) => cpu(yardstick)[round] / micros);
  const ratios = service.map(({ perSecond }, round) => perSecond / yardstick[round].perSecond);
  return {
    name: shape.name,
    goal: shape.goal,
    load1: busyness().load1,
    yardstickPerSecond: median(rates(yardstick)),
    perSecond: median(rates(service)),
    ratio: median(ratios),
    ratioLeast: Math.min(...ratios),
    ratioMost: Math.max(...ratios),
    yardstickCpuMicros: median(cpu(yardstick)),
    cpuMicros: median(cpu(service)),
    cpuRatio: median(cpuRatios),
    cpuRatioLeast: Math.min(...cpuRatios),
    cpuRatioMost: Math.max(...cpuRatios),
    rounds: { yardstick: rates(yardstick), service: rates(service) },
    refusedShare: service[0].overLimit === undefined ? undefined : service[0].overLimit / service[0].calls,
  };
}

async function measureOne(kind, shape) {
  const server = await start(kind, shape);
  try {
    if (shape.by === "h2load") {
      // h2load looks at HTTP statuses, which errors of gRPC have too, so a caller that reads answers goes first.
      check(await call(server, { ...shape, connections: 1, seconds: 0.5, warmUpSeconds: 0 }), shape.name);
      return await load(server, { ...shape, seconds });
    }
    const report = await call(server, { ...shape, seconds });
    check(report, shape.name);
    return report;
  } finally {
    await server.stop();
  }
}

function check({ calls, errors }, name) {
  if (calls === 0 || errors > 0)
    throw new Error(`${name}: ${errors} of ${calls} calls were not answered by a decision`);
}

function start(kind, shape) {
  const env = { BENCH_RULES: shape.rules, ...(shape.redis ? { REDIS_URL: `127.0.0.1:${redis.port}` } : {}) };
  // A bench measures, it does not degrade: an answer that takes long counts as long.
  return startServer(kind, { profile: values.profile, env: { ...env, STORE_DEADLINE: "10s", ...shape.env } });
}

/** Latencies of the service at half of what it carries, from when each call was due. */
async function measureTail() {
  const shape = { rules: "hot", connections: 4, streams: 2_000 };
  const runs = [];
  for (let round = 1; round <= rounds; round++) {
    progress(`tail at half load: round ${round} of ${rounds}`);
    const server = await start("service, fast lane", shape);
    const most = await call(server, { ...shape, streams: 50, seconds });
    const rate = Math.round(most.perSecond / 2);
    const { p50Us, p99Us, errors } = await call(server, { ...shape, rate, seconds });
    await server.stop();
    runs.push({ rate, p50Us, p99Us, errors });
  }
  const p99s = runs.map(({ p99Us }) => p99Us / 1_000);
  return {
    goalMs: TAIL_GOAL_MS,
    p99Ms: median(p99s),
    p99LeastMs: Math.min(...p99s),
    p99MostMs: Math.max(...p99s),
    runs,
  };
}

function print() {
  const pin = isPinned() ? "one core for the server, one for the load" : "cores not pinned";
  printTable(
    `Calls per second beside an empty grpc-js handler, ${rounds} rounds of ${seconds} s, ${pin}; load on the machine ${before.load1} of ${before.cores} cores before the start`,
    results.map((row) => ({
      shape: row.name,
      yardstick: row.yardstickPerSecond.toLocaleString("en"),
      headgate: row.perSecond.toLocaleString("en"),
      "us of CPU": `${row.yardstickCpuMicros.toFixed(1)} / ${row.cpuMicros.toFixed(1)}`,
      "CPU ratio": `${row.cpuRatio.toFixed(1)} (${row.cpuRatioLeast.toFixed(1)}..${row.cpuRatioMost.toFixed(1)})`,
      ratio: row.ratio.toFixed(1),
      spread: `${row.ratioLeast.toFixed(1)}..${row.ratioMost.toFixed(1)}`,
      goal: row.goal === undefined ? "" : `>= ${row.goal}`,
      "":
        row.goal === undefined
          ? ""
          : row.ratio >= row.goal
            ? "met"
            : row.cpuRatio >= row.goal
              ? "met by CPU"
              : "MISSED",
    })),
  );
  if (tail === undefined) return;
  const { p99Ms, p99LeastMs, p99MostMs, goalMs, runs } = tail;
  process.stdout.write(
    `\np99 at half load (${median(runs.map(({ rate }) => rate)).toLocaleString("en")} calls/s): ${p99Ms.toFixed(2)} ms, ` +
      `${p99LeastMs.toFixed(2)}..${p99MostMs.toFixed(2)}, goal < ${goalMs} ms: ${p99Ms < goalMs ? "met" : "MISSED"}\n`,
  );
}
