// What holds cost: a payment that opens one, its settlement, and a refusal, with a plain payment, in memory and in a script of Redis; the
// call at which as many end at once as one call may end, in Redis's CPU; and how many bytes a live and a settled one take.
//   npm run build && node --expose-gc bench/store/holds.mjs

import { performance } from "node:perf_hooks";
import Redis from "ioredis";
import { cpuMicrosOf } from "../harness/cpu-time.mjs";
import { startRedis } from "../harness/redis.mjs";
import { printTable } from "../harness/report.mjs";
import { loadDist } from "../load/dist.mjs";

const { Mode, TakeGroup } = await loadDist("engine/domain/take.js");
const { hashBucketKey } = await loadDist("engine/domain/key-bytes.js");
const { LimitStats } = await loadDist("engine/domain/stats.js");
const { MemoryStore } = await loadDist("stores/memory/memory-store.js");
const { RedisBatch } = await loadDist("stores/redis/redis-batch.js");
const { loadScripts } = await loadDist("stores/redis/scripts.js");

const KEYS = 10_000;
const ROUNDS = 40;
const CALLS = 5_000;
const HELD = 200_000;
const ENDING_ROUNDS = 50;
const ENDING_KEYS = 20;
const ENDING_HOLDS = 150;
const clock = { us: Date.UTC(2026, 0, 1) * 1000, nowUs: () => clock.us };
const never = { answered: () => undefined };
const PLAIN = {
  algorithm: 0,
  amount: 4_000_000_000,
  burst: 4_000_000_000,
  windowSeconds: 1,
  debtMax: 4_294_967_295,
  holdSeconds: 0,
  isConcurrent: false,
  reserve: 0,
  priority: undefined,
  isCounter: false,
  keySuffix: "}|tb/1",
  stats: new LimitStats(),
};
const WITH_HOLDS = { ...PLAIN, holdSeconds: 120 };
const REFILLED = { ...WITH_HOLDS, amount: 100 };
/** Refuses what the bench asks next, as soon as holds have paid all. */
const FULL = { ...WITH_HOLDS, amount: 1, burst: 1_000, windowSeconds: 86_400 };
const PLACES = { ...WITH_HOLDS, amount: 0, burst: 1_000, isConcurrent: true, keySuffix: "}|concurrent" };

function groupOf(limit, key, mode, cost, holdId, group = new TakeGroup()) {
  group.reset();
  const take = group.add(limit);
  take.bucketKey = key;
  take.keyHash = hashBucketKey(key);
  take.mode = mode;
  take.cost = cost;
  take.holdId = holdId;
  return group;
}

const key = (i) => `{bench|tenant=${i % KEYS}${PLAIN.keySuffix}`;
const least = (times) => Math.min(...times);

function memoryRows() {
  const store = new MemoryStore({ clock, bucketsMax: 1_000_000, logBytesMax: 134_217_728, holdsMax: 1_000_000 });
  const group = new TakeGroup();
  const times = { plain: [], pair: [] };
  for (let round = 0; round < ROUNDS; round++) {
    let began = performance.now();
    for (let i = 0; i < CALLS; i++) store.take(groupOf(PLAIN, key(i), Mode.pay, 1, "", group), never);
    times.plain.push((performance.now() - began) / CALLS);
    began = performance.now();
    for (let i = 0; i < CALLS; i++) {
      const id = `7f3c9a52-${round}-${i}`;
      store.take(groupOf(WITH_HOLDS, key(i), Mode.pay, 2_000, id, group), never);
      store.take(groupOf(WITH_HOLDS, key(i), Mode.settle, 700, id, group), never);
      clock.us += 20;
    }
    times.pair.push((performance.now() - began) / CALLS);
  }
  const plainUs = least(times.plain) * 1_000;
  const pairUs = least(times.pair) * 1_000;
  return [
    { memory: "plain payment", "us a call": plainUs.toFixed(2), ratio: "1.0" },
    {
      memory: "payment with a hold, or its settlement",
      "us a call": (pairUs / 2).toFixed(2),
      ratio: (pairUs / 2 / plainUs).toFixed(1),
    },
  ];
}

function bytesRow() {
  const store = new MemoryStore({ clock, bucketsMax: 1_000_000, logBytesMax: 134_217_728, holdsMax: 1_000_000 });
  const used = () => {
    globalThis.gc?.();
    globalThis.gc?.();
    return process.memoryUsage().heapUsed;
  };
  const before = used();
  for (let i = 0; i < HELD; i++) {
    // Buckets of the record pages are not on the heap that is measured.
    store.take(groupOf(WITH_HOLDS, key(i), Mode.pay, 1, `7f3c9a52-5e1b-4d47-9c0e-${i}`), never);
  }
  const bytes = Math.round((used() - before) / HELD);
  return { "live holds in memory": HELD, "bytes each": globalThis.gc === undefined ? "run with --expose-gc" : bytes };
}

async function redisRows() {
  const server = await startRedis();
  const client = new Redis(server.port, "127.0.0.1");
  const scripts = loadScripts();
  try {
    const micros = async (groups) => {
      const batch = new RedisBatch();
      for (const group of groups) batch.add(group, never);
      const args = batch
        .encode(clock.us, { latestOf: () => 0, bucketTimeUs: () => clock.us })
        .map((text) => Buffer.from(text, "latin1"));
      await client.config("RESETSTAT");
      await client.eval(scripts[batch.script].text, ...args);
      const info = await client.info("commandstats");
      return Number(/cmdstat_eval:calls=\d+,usec=(\d+)/.exec(info)?.[1]) / groups.length;
    };
    const rows = [];
    for (const takes of [1, 16, 64]) {
      const found = { plain: [], pay: [], settle: [], "refusal that looks at five holds": [] };
      const full = Array.from({ length: takes }, (_, i) => `full${takes}-${i}`);
      for (let held = 0; held < 20; held++)
        await micros(full.map((name) => groupOf(FULL, name, Mode.pay, 50, `r${held}`)));
      for (let round = 0; round < ROUNDS; round++) {
        const ids = Array.from({ length: takes }, (_, i) => [key(round * takes + i), `7f3c9a52-${round}-${i}`]);
        found.plain.push(await micros(ids.map(([name]) => groupOf(PLAIN, `p${name}`, Mode.pay, 1, ""))));
        found.pay.push(await micros(ids.map(([name, id]) => groupOf(WITH_HOLDS, name, Mode.pay, 2_000, id))));
        found.settle.push(await micros(ids.map(([name, id]) => groupOf(WITH_HOLDS, name, Mode.settle, 700, id))));
        found["refusal that looks at five holds"].push(
          await micros(full.map((name) => groupOf(FULL, name, Mode.pay, 900, "one more"))),
        );
        clock.us += 1_000;
      }
      for (const [what, times] of Object.entries(found)) {
        rows.push({ Redis: what, "takes in the call": takes, "us a take": least(times).toFixed(1) });
      }
    }
    return rows;
  } finally {
    client.disconnect();
    await server.stop();
  }
}

// SLOWLOG and commandstats also count what other processes took from Redis; the scheduler's count has Redis alone. It includes some 20 us
// for reading the call and writing the reply.
async function endingRow({ name, limit }) {
  const server = await startRedis();
  const client = new Redis(server.port, "127.0.0.1");
  const sha = await client.script("LOAD", loadScripts().holds.text);
  const call = async (groups) => {
    const batch = new RedisBatch();
    for (const group of groups) batch.add(group, never);
    const args = batch.encode(clock.us, { latestOf: () => 0, bucketTimeUs: () => clock.us });
    await client.evalsha(sha, ...args.map((text) => Buffer.from(text, "latin1")));
  };
  try {
    const micros = [];
    let ended = 0;
    for (let round = 0; round < ENDING_ROUNDS; round++) {
      const names = Array.from({ length: ENDING_KEYS }, (_, i) => `ending${round}-${i}`);
      for (let i = 0; i < ENDING_HOLDS; i++) {
        await call(names.map((one) => groupOf(limit, one, Mode.pay, limit.isConcurrent ? 1 : 100, `e${i}`)));
        // Half of each payment is refilled before the next, so that as many lows as possible are kept.
        clock.us += 500_000;
      }
      clock.us += 121_000_000;
      for (const one of names) {
        const before = cpuMicrosOf(server.pid);
        await call([groupOf(limit, one, Mode.peek, 1, "")]);
        micros.push(cpuMicrosOf(server.pid) - before);
        ended = ENDING_HOLDS - (await client.zcard(`${one}|holds`));
      }
      await client.flushall();
    }
    micros.sort((one, other) => one - other);
    const at = (share) => micros[Math.floor(share * (micros.length - 1))].toFixed(0);
    return { "holds end": ended, of: name, "us, median": at(0.5), "99 of 100": at(0.99), most: at(1) };
  } finally {
    client.disconnect();
    await server.stop();
  }
}

printTable("Holds in memory", memoryRows());
printTable("Their size", [bytesRow()]);
printTable("Holds in Redis, the script's own time", await redisRows());
printTable("A call that ends holds in Redis, Redis's CPU", [
  await endingRow({ name: "a token bucket", limit: REFILLED }),
  await endingRow({ name: "concurrent", limit: PLACES }),
]);
