// What a take costs Redis itself: CPU time of its process, microseconds inside the script, bytes both ways, by how many takes
// share a call; and by how busy Redis is with calls of one take each that come from many processes, as they do at a shard of a
// fleet: a Redis that has slept pays for waking up with each call, a busy one does not. Takes are spread over 10,000 keys and pass.
// Figures for how many Redis a fleet needs (docs/performance.md).
//   npm run build && node bench/store/redis-cost.mjs [--seconds 2]

import { parseArgs } from "node:util";
import Redis from "ioredis";
import { cpuMicrosOf } from "../harness/cpu-time.mjs";
import { startRedis } from "../harness/redis.mjs";
import { printTable, progress, writeResults } from "../harness/report.mjs";
import { openStoreForBench } from "./headgate-store.mjs";
import { openLoneCalls } from "./lone-calls.mjs";

const { values } = parseArgs({ options: { seconds: { type: "string", default: "2" } } });
const seconds = Number(values.seconds);
const KEYS = 10_000;
const CALLERS = [1, 8, 32, 128, 256];
const WARM_UP_SECONDS = 0.5;
/** Processes, each with a connection of its own, and calls a second from all of them. */
const PROCESSES = 64;
const RATES = [10_000, 20_000, 30_000, 40_000, 50_000];

const redis = await startRedis();
const admin = new Redis(redis.port, "127.0.0.1");
const store = await openStoreForBench({ port: redis.port, limit: { ratePerSecond: 4e6, burst: 4e9 } });
const rows = [];
let processes;
try {
  processes = await openLoneCalls({ port: redis.port, connections: PROCESSES, keys: KEYS });
  for (const callers of CALLERS) {
    progress(`${callers} callers`);
    await drive(callers, WARM_UP_SECONDS);
    rows.push({ processes: 1, ...(await measure(() => drive(callers, seconds))) });
  }
  for (const rate of RATES) {
    progress(`${PROCESSES} processes, ${rate} calls/s`);
    await processes.drive(rate, WARM_UP_SECONDS);
    rows.push({ processes: PROCESSES, ...(await measure(() => processes.drive(rate, seconds), 1)) });
  }
} finally {
  progress("");
  processes?.close();
  await store.close();
  admin.disconnect();
  await redis.stop();
}
printTable(`What a take costs Redis, ${KEYS} keys, ${seconds} s each`, rows);
const file = writeResults("redis-cost", `node bench/store/redis-cost.mjs --seconds ${seconds}`, rows);
process.stdout.write(`\nwritten to ${file.slice(file.indexOf("bench/"))}\n`);

async function measure(work, takesPerCall) {
  const before = await look();
  const takes = await work();
  const after = await look();
  const per = (what) => (after[what] - before[what]) / takes;
  return {
    "takes/s": Math.round(takes / seconds),
    "takes per call": (takesPerCall ?? 1 / per("calls")).toFixed(1),
    "us of Redis' CPU": per("cpuMicros").toFixed(2),
    "of its core": (((after.cpuMicros - before.cpuMicros) / seconds) * 1e-6).toFixed(2),
    "us in the script": per("scriptMicros").toFixed(2),
    "bytes to Redis": Math.round(per("bytesIn")),
    "bytes back": Math.round(per("bytesOut")),
  };
}

async function drive(callers, forSeconds) {
  let takes = 0;
  const end = performance.now() + forSeconds * 1_000;
  const caller = async (id) => {
    let at = id * 7_919;
    while (performance.now() < end) {
      at = (at * 1_103_515_245 + 12_345) & 0x7fffffff;
      await store.take(`user-${at % KEYS}`);
      takes++;
    }
  };
  await Promise.all(Array.from({ length: callers }, (_, id) => caller(id)));
  return takes;
}

async function look() {
  const info = await admin.info("everything");
  const number = (pattern) => Number(pattern.exec(info)?.[1] ?? 0);
  return {
    cpuMicros: cpuMicrosOf(redis.pid),
    calls: store.callsSent(),
    scriptMicros: number(/cmdstat_evalsha:calls=\d+,usec=(\d+)/),
    bytesIn: number(/total_net_input_bytes:(\d+)/),
    bytesOut: number(/total_net_output_bytes:(\d+)/),
  };
}
