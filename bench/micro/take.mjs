// What one take costs in the memory store, writing and hashing its key included: time on a hot key and on a million keys
// in no order, memory per bucket, longest take while keys keep coming. Run after `npm run build`:
//
//   node --expose-gc bench/micro/take.mjs [--write] [--goals] [--json]
//
// --goals measures only what has a goal, --json prints figures for other programs.

import { performance } from "node:perf_hooks";
import { payHit } from "../harness/pay-hit.mjs";
import { writeResults } from "../harness/report.mjs";
import { loadDist } from "../load/dist.mjs";

const { Algorithm } = await loadDist("engine/domain/limit.js");
const { LimitStats } = await loadDist("engine/domain/stats.js");
const { TakeGroup } = await loadDist("engine/domain/take.js");
const { limitKeySuffix } = await loadDist("engine/rules/bucket-key.js");
const { MemoryStore } = await loadDist("stores/memory/memory-store.js");

const MILLION = 1_000_000;
const ROUNDS = 200;
const TAKES_PER_ROUND = 5_000;
const KEY_PREFIX = "{edge|plan=pro|api_key=";
const clock = { us: Date.UTC(2026, 0, 1) * 1000, nowUs: () => clock.us };

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

const NUMBER_DIGITS = 9;
const LENGTH = 40;

/** Takes from the bucket of that number, whose key has so many bytes; it is written as the service writes keys. */
function takeFrom(store, group, limit, number, length = LENGTH) {
  group.reset();
  const take = group.add(limit);
  const { keys } = group;
  const at = keys.end;
  keys.write(prefixes.get(length));
  const { bytes } = keys;
  let left = number;
  for (let digit = 0; digit < NUMBER_DIGITS; digit++) {
    bytes[keys.end++] = 0x30 + (left % 10);
    left = Math.floor(left / 10);
  }
  keys.write(limit.keySuffix);
  payHit(store, group, take, at);
}

/** By length of the key: what stands before the number, and room in the buffer for that. */
const SUFFIX_LENGTH = limitOf(Algorithm.tokenBucket, 1).keySuffix.length;
const LENGTHS = [20, 40, 60, 200];
const prefixes = new Map(
  LENGTHS.map((length) => [length, KEY_PREFIX.padEnd(length, "k").slice(0, length - NUMBER_DIGITS - SUFFIX_LENGTH)]),
);

function residentPerBucket(algorithm) {
  const limit = limitOf(algorithm, 100);
  const group = new TakeGroup();
  const warmUp = new MemoryStore({ clock, bucketsMax: 1_000_000 });
  // A few keys only, but the code has run: the process has its working size before it starts.
  for (let i = 0; i < MILLION; i++) takeFrom(warmUp, group, limit, i % 1_000);
  void warmUp.close();
  globalThis.gc?.();
  const before = process.memoryUsage().rss;
  const store = new MemoryStore({ clock, bucketsMax: 1_000_000 });
  let most = 0;
  for (let i = 0; i < MILLION; i++) {
    takeFrom(store, group, limit, i);
    if (i >= 100_000) most = Math.max(most, store.bytes / (i + 1));
  }
  const bytes = (process.memoryUsage().rss - before) / MILLION;
  if (store.bucketCount !== MILLION) throw new Error(`expected a million buckets, found ${store.bucketCount}`);
  void store.close();
  return { bytes, most };
}

/** Bytes for each payment of a thousand full sliding logs. */
function bytesPerPayment() {
  const limit = limitOf(Algorithm.slidingLog, 1_000);
  const group = new TakeGroup();
  const store = new MemoryStore({ clock, bucketsMax: 1_000_000 });
  const payments = 1_000 * limit.amount;
  const emptyBytes = store.bytes;
  for (let i = 0; i < payments; i++) {
    clock.us += 1;
    takeFrom(store, group, limit, i % 1_000);
  }
  void store.close();
  return (store.bytes - emptyBytes) / payments;
}

function nsPerTake(algorithm, keyCount, amount, length = LENGTH) {
  const limit = limitOf(algorithm, amount);
  const group = new TakeGroup();
  const store = new MemoryStore({ clock, bucketsMax: 1_000_000 });
  let random = 1;
  const run = (takes) => {
    const start = performance.now();
    for (let i = 0; i < takes; i++) {
      // Keys in no order, as callers come.
      random = (Math.imul(random, 1_664_525) + 1_013_904_223) >>> 0;
      takeFrom(store, group, limit, random % keyCount, length);
      clock.us += 1;
    }
    return ((performance.now() - start) * MILLION) / takes;
  };
  for (let i = 0; i < keyCount; i++) takeFrom(store, group, limit, i, length);
  run(MILLION);
  // The quickest of many: the machine has other work, too.
  let best = Number.POSITIVE_INFINITY;
  for (let round = 0; round < ROUNDS; round++) best = Math.min(best, run(TAKES_PER_ROUND));
  void store.close();
  return best;
}

/** Time of each take while 2 million new keys arrive, in milliseconds. */
function timesOfNewKeys() {
  const limit = limitOf(Algorithm.tokenBucket, 100);
  const group = new TakeGroup();
  const store = new MemoryStore({ clock, bucketsMax: 4 * MILLION });
  const times = new Float64Array(2 * MILLION);
  for (let i = 0; i < times.length; i++) {
    const start = performance.now();
    takeFrom(store, group, limit, i);
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

const resident = residentPerBucket(Algorithm.tokenBucket);
print("resident per live token bucket, a million, keys of 40 bytes", resident.bytes, "bytes", 150);
print("the most per bucket, at any number from 100,000 to a million", resident.most, "bytes", 150);
print("per payment of a thousand full sliding logs", bytesPerPayment(), "bytes");
const longest = longestTakes();
print("longest take of 2 million new keys, the same in 3 runs", longest.ownMs, "ms", 2);
print("longest take of the best run, interruptions included", longest.bestMs, "ms");
print("median take of a new key", longest.medianUs, "us");
if (!process.argv.includes("--goals")) printTimes();
if (process.argv.includes("--json")) process.stdout.write(`${JSON.stringify(found)}\n`);
if (process.argv.includes("--write")) writeResults("take", "node --expose-gc bench/micro/take.mjs --write", found);

function printTimes() {
  for (const [name, algorithm] of Object.entries(Algorithm)) {
    // bench/store/calendar.mjs measures those, which need windows of a zone.
    if (algorithm === Algorithm.calendarWindow) continue;
    print(`${name}, hot key, room`, nsPerTake(algorithm, 1, algorithm === Algorithm.slidingLog ? 1e9 : 4e9), "ns");
    print(`${name}, hot key, refused`, nsPerTake(algorithm, 1, 10), "ns");
  }
  for (const length of LENGTHS) {
    print(
      `tokenBucket, a million keys of ${length} bytes`,
      nsPerTake(Algorithm.tokenBucket, MILLION, 4e9, length),
      "ns",
    );
  }
  print("slidingWindow, a million keys", nsPerTake(Algorithm.slidingWindow, MILLION, 4e9), "ns");
}
