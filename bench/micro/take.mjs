// What one take costs in the memory store: time on a hot key and on a million keys, memory per bucket, longest take
// while keys keep coming. Run after `npm run build`:
//
//   node --expose-gc bench/micro/take.mjs [--write] [--goals] [--json]
//
// --goals measures only what has a goal, --json prints figures for other programs.

import { performance } from "node:perf_hooks";
import { writeResults } from "../harness/report.mjs";
import { loadDist } from "../load/dist.mjs";

const { Algorithm } = await loadDist("core/limit.js");
const { LimitStats } = await loadDist("core/limit-stats.js");
const { TakeGroup } = await loadDist("core/take.js");
const { hashBucketKey, limitKeySuffix } = await loadDist("rules/bucket-key.js");
const { MemoryStore } = await loadDist("stores/memory/memory-store.js");

const MILLION = 1_000_000;
const KEY_PREFIX = "{edge|plan=pro|api_key=";
const clock = { us: Date.UTC(2026, 0, 1) * 1000, nowUs: () => clock.us };
const never = { settled: () => undefined };

function limitOf(algorithm, amount) {
  return {
    algorithm,
    amount,
    burst: amount,
    windowSeconds: 3_600,
    debtMax: amount * 10,
    keySuffix: limitKeySuffix(algorithm, 3_600, ""),
    stats: new LimitStats(),
  };
}

/** A key of 40 bytes, as text that was just cut from a buffer. */
function keyOf(number, limit) {
  return Buffer.from(`${KEY_PREFIX}${String(number).padStart(9, "0")}${limit.keySuffix}`, "latin1").latin1Slice();
}

function takeFrom(store, group, limit, key, hash) {
  group.reset();
  const take = group.add(limit);
  take.bucketKey = key;
  take.keyHash = hash;
  take.descriptor = 0;
  take.kind = 0;
  take.mode = 0;
  take.cost = 1;
  store.take(group, never);
}

function residentPerBucket(algorithm) {
  const limit = limitOf(algorithm, 100);
  const group = new TakeGroup();
  const warmUp = new MemoryStore({ clock });
  // A few keys only, but garbage as later, some of it long-lived: the process has its working size before it starts.
  const recent = [];
  for (let i = 0; i < MILLION; i++) {
    const key = keyOf(i % 1_000, limit);
    recent[i % 50_000] = key;
    takeFrom(warmUp, group, limit, key, hashBucketKey(key));
  }
  void warmUp.close();
  const before = process.memoryUsage().rss;
  const store = new MemoryStore({ clock });
  for (let i = 0; i < MILLION; i++) {
    const key = keyOf(i, limit);
    takeFrom(store, group, limit, key, hashBucketKey(key));
  }
  const bytes = (process.memoryUsage().rss - before) / MILLION;
  if (store.bucketCount !== MILLION) throw new Error(`expected a million buckets, found ${store.bucketCount}`);
  void store.close();
  return bytes;
}

function nsPerTake(algorithm, keyCount, amount) {
  const limit = limitOf(algorithm, amount);
  const group = new TakeGroup();
  const store = new MemoryStore({ clock });
  const keys = Array.from({ length: keyCount }, (_, i) => keyOf(i, limit));
  const hashes = keys.map(hashBucketKey);
  const run = (takes) => {
    let at = 0;
    const start = performance.now();
    for (let i = 0; i < takes; i++) {
      takeFrom(store, group, limit, keys[at], hashes[at]);
      clock.us += 1;
      at += 7919;
      if (at >= keyCount) at %= keyCount;
    }
    return ((performance.now() - start) * MILLION) / takes;
  };
  run(keyCount + MILLION);
  const rounds = [run(2 * MILLION), run(2 * MILLION), run(2 * MILLION)].sort((a, b) => a - b);
  void store.close();
  return rounds[1];
}

/** Time of each take while 2 million new keys arrive, in milliseconds. */
function timesOfNewKeys() {
  const limit = limitOf(Algorithm.tokenBucket, 100);
  const group = new TakeGroup();
  const store = new MemoryStore({ clock });
  const times = new Float64Array(2 * MILLION);
  for (let i = 0; i < times.length; i++) {
    const key = keyOf(i, limit);
    const hash = hashBucketKey(key);
    const start = performance.now();
    takeFrom(store, group, limit, key, hash);
    times[i] = performance.now() - start;
  }
  void store.close();
  return times;
}

/**
 * The same keys arrive in the same order in three stores. What the store itself takes long for, it takes long for in
 * each of them; what another process or the garbage collector does in between, it does not.
 */
function longestTakes() {
  const rounds = [timesOfNewKeys(), timesOfNewKeys(), timesOfNewKeys()];
  const own = rounds[0].map((time, i) => Math.min(time, rounds[1][i], rounds[2][i]));
  for (const times of [own, ...rounds]) times.sort();
  return {
    ownMs: own.at(-1),
    bestMs: Math.min(...rounds.map((times) => times.at(-1))),
    medianUs: own[MILLION] * 1000,
  };
}

const found = [];
const print = (what, value, unit, goal) => {
  const beside = goal === undefined ? "" : `  goal <= ${goal}: ${value <= goal ? "met" : "MISSED"}`;
  if (!process.argv.includes("--json"))
    console.log(`${what.padEnd(58)} ${value.toFixed(value < 10 ? 2 : 0).padStart(7)} ${unit}${beside}`);
  found.push({ what, value, unit, goal });
};

print(
  "resident per live token bucket, a million, keys of 40 bytes",
  residentPerBucket(Algorithm.tokenBucket),
  "bytes",
  150,
);
const longest = longestTakes();
print("longest take of 2 million new keys, the same in 3 runs", longest.ownMs, "ms", 2);
print("longest take of the best run, interruptions included", longest.bestMs, "ms");
print("median take of a new key", longest.medianUs, "us");
if (!process.argv.includes("--goals")) printTimes();
if (process.argv.includes("--json")) process.stdout.write(`${JSON.stringify(found)}\n`);
if (process.argv.includes("--write")) writeResults("take", "node --expose-gc bench/micro/take.mjs --write", found);

function printTimes() {
  for (const [name, algorithm] of Object.entries(Algorithm)) {
    print(`${name}, hot key, room`, nsPerTake(algorithm, 1, algorithm === Algorithm.slidingLog ? 10_000 : 4e9), "ns");
    print(`${name}, hot key, refused`, nsPerTake(algorithm, 1, 10), "ns");
  }
  print("tokenBucket, a million keys", nsPerTake(Algorithm.tokenBucket, MILLION, 4e9), "ns");
  print("slidingWindow, a million keys", nsPerTake(Algorithm.slidingWindow, MILLION, 4e9), "ns");
}
