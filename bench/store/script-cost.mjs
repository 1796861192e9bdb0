// What the scripts cost Redis: its CPU time for calls of one and of two token buckets, refusals, reservations with their settlement, and
// counters, by how many calls travel together. Several builds take turns in one run; ratios are to the first one, of the same round.
//   npm run build && node bench/store/script-cost.mjs [--rounds 9] [--only settle] [--dist dist] [--dist ../other/dist]

import { resolve } from "node:path";
import { parseArgs } from "node:util";
import Redis from "ioredis";
import { cpuMicrosOf } from "../harness/cpu-time.mjs";
import { startRedis } from "../harness/redis.mjs";
import { median, printTable, progress, writeResults } from "../harness/report.mjs";

const { values } = parseArgs({
  options: {
    rounds: { type: "string", default: "9" },
    only: { type: "string", default: "" },
    dist: { type: "string", multiple: true, default: [resolve(import.meta.dirname, "../../dist")] },
  },
});
const rounds = Number(values.rounds);
const TAKES_PER_ROUND = 2_000;
const KEYS = 10_000;
const HOUR_SECONDS = 3_600;
const PLENTY = {
  algorithm: 0,
  amount: 1_000,
  burst: 1_000,
  windowSeconds: 60,
  debtMax: 1_000,
  holdSeconds: 0,
  isConcurrent: false,
  isCounter: false,
};
const SECOND = { ...PLENTY, windowSeconds: 1 };
const FULL = { ...PLENTY, amount: 1, burst: 1, windowSeconds: HOUR_SECONDS };
const HELD = { ...PLENTY, amount: 1_000_000, burst: 1_000_000, debtMax: 1_000_000, holdSeconds: 120 };
const COUNTER = { ...PLENTY, isCounter: true };
/** A limit that all callers share, and what a caller is guaranteed of it: half of the calls are covered, half borrow. */
const SHARED = { ...PLENTY, amount: 1_000_000, burst: 1_000_000, isShared: true };
const LENT = { ...SHARED, burst: 900_000, reserve: 100_000 };
LENT.priority = { low: LENT, guarantee: { whole: SHARED } };
const OWN = { ...PLENTY, amount: 1, burst: 1, windowSeconds: 1 };
/** Limits of each call, how many calls travel together, and modes of the requests that are made one after another. */
const SHAPES = [
  ...[1, 20, 64].map((calls) => ({ name: "take", calls, limits: [PLENTY], modes: ["pay"] })),
  { name: "refused", calls: 64, limits: [FULL], modes: ["pay"], isPrepared: true },
  ...[1, 16].map((calls) => ({ name: "two limits", calls, limits: [PLENTY, SECOND], modes: ["pay"] })),
  { name: "take", calls: 16, limits: [PLENTY], modes: ["pay"] },
  ...[1, 16].map((calls) => ({ name: "shared limit", calls, limits: [SHARED], modes: ["pay"] })),
  ...[1, 16].map((calls) => ({ name: "shared, with guarantees", calls, limits: [LENT], own: OWN, modes: ["pay"] })),
  ...[1, 16, 64].map((calls) => ({ name: "reserve, settle", calls, limits: [HELD], modes: ["pay", "settle"] })),
  ...[1, 16].map((calls) => ({ name: "counter", calls, limits: [COUNTER], modes: ["pay"] })),
  ...[1, 16].map((calls) => ({ name: "three counters", calls, limits: [COUNTER, COUNTER, COUNTER], modes: ["pay"] })),
].filter(({ name }) => name.includes(values.only));
const TIMES = { latestOf: () => 0, bucketTimeUs: () => Date.now() * 1_000 };
const NOBODY = { answered: () => undefined };

const redis = await startRedis();
const client = new Redis(redis.port, "127.0.0.1");
const variants = [];
try {
  for (const dist of values.dist) variants.push({ dist, ...(await loadBuild(dist)), costs: SHAPES.map(() => []) });
  for (let round = 1; round <= rounds; round++) {
    progress(`round ${round} of ${rounds}`);
    for (const [i, shape] of SHAPES.entries()) {
      // In both orders: the second of two builds finds the processor warmer.
      for (const variant of round % 2 === 0 ? variants : variants.toReversed()) {
        variant.costs[i].push(await measure(variant, shape));
      }
    }
  }
} finally {
  progress("");
  client.disconnect();
  await redis.stop();
}

const rows = SHAPES.flatMap(({ name, calls }, i) =>
  variants.map(({ dist, costs }) => ({
    call: name,
    "calls together": calls,
    build: dist,
    "us of Redis' CPU a call": median(costs[i].map(({ cpu }) => cpu)).toFixed(2),
    "to the first": ratio(costs[i], variants[0].costs[i], "cpu"),
    "us in the script": median(costs[i].map(({ script }) => script)).toFixed(2),
    "of that": ratio(costs[i], variants[0].costs[i], "script"),
  })),
);
printTable(`What a call costs Redis, medians of ${rounds} rounds`, rows);
const file = writeResults("script-cost", `node bench/store/script-cost.mjs --rounds ${rounds}`, rows);
process.stdout.write(`\nwritten to ${file.slice(file.indexOf("bench/"))}\n`);

function ratio(costs, firsts, what) {
  return median(costs.map((cost, round) => cost[what] / firsts[round][what])).toFixed(2);
}

async function loadBuild(dist) {
  const load = (path) => import(resolve(dist, path));
  const { loadScripts } = await load("stores/redis/scripts.js");
  const scripts = loadScripts();
  for (const { text } of Object.values(scripts)) await client.script("LOAD", text);
  const { RedisBatch } = await load("stores/redis/redis-batch.js");
  const { CounterBatch } = await load("stores/redis/counter-batch.js");
  const { Mode, TakeGroup } = await load("engine/domain/take.js");
  const newBatch = (isCounter) => (isCounter ? new CounterBatch(1, undefined, 0) : new RedisBatch());
  return { newBatch, shaOf: (batch) => scripts[batch.script].sha, Mode, TakeGroup };
}

/** Microseconds a call, of the server's CPU and inside the script. */
async function measure(variant, shape) {
  const requests = Math.ceil(TAKES_PER_ROUND / shape.calls / shape.limits.length);
  await client.flushall();
  if (shape.isPrepared) await run(variant, shape, requests);
  await client.config("RESETSTAT");
  const before = cpuMicrosOf(redis.pid);
  await run(variant, shape, requests);
  const calls = requests * shape.calls * shape.modes.length;
  const cpu = (cpuMicrosOf(redis.pid) - before) / calls;
  const info = await client.info("commandstats");
  return { cpu, script: Number(/cmdstat_evalsha:calls=\d+,usec=(\d+)/.exec(info)[1]) / calls };
}

async function run(variant, shape, requests) {
  const pipeline = client.pipeline();
  for (let i = 0; i < requests; i++) {
    for (const mode of shape.modes)
      pipeline.callBuffer("evalsha", ...argumentsOf(variant, shape, mode, i * shape.calls));
  }
  const replies = await pipeline.exec();
  const failed = replies.find(([error]) => error !== null);
  if (failed !== undefined) throw failed[0];
}

function argumentsOf({ newBatch, shaOf, Mode, TakeGroup }, { calls, limits, own }, mode, from) {
  const batch = newBatch(limits[0].isCounter);
  for (let call = from; call < from + calls; call++) {
    const group = new TakeGroup();
    const tenant = (call * 7_919) % KEYS;
    if (own !== undefined) {
      const bucketKey = `{bench}|global|tb/1|guarantee|tenant=${tenant % (KEYS / 10)}`;
      Object.assign(group.add(own), { bucketKey, mode: Mode.guarantee, cost: 1, descriptor: 0 });
    }
    for (const [i, limit] of limits.entries()) {
      const take = group.add(limit);
      take.bucketKey = limit.isShared
        ? "{bench}|global|tb/1"
        : `{bench|tenant=${tenant}}|tb/${limit.windowSeconds}/${i}`;
      take.descriptor = i;
      take.mode = Mode[mode];
      take.cost = mode === "settle" ? 2 : limit.holdSeconds > 0 ? 5 : 1;
      if (limit.holdSeconds > 0) take.holdId = `7f3c9a52-5e1b-4d47-9c0e-${call}`;
    }
    batch.add(group, NOBODY);
  }
  return [shaOf(batch), ...batch.encode(0, TIMES).map((text) => Buffer.from(text, "latin1"))];
}
