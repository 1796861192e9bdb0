// What counting top keys (TOP_KEYS) adds to a call: from bytes to bytes, without a network, with and without it in turns in one
// process, on one key and on a million in no order, where all pass and where all are refused. Run after `npm run build`:
//   node --expose-gc bench/micro/top-keys.mjs [--write]
// The goal is 30 ns a call at most, of counting alone; what it adds to a call of the service shows on a quiet machine only. And the
// memory that it takes after a flood. --write also keeps the figures under bench/results.

import { bytes, cpuNsPerCall, expectDecisions, reply, text } from "../harness/handled-calls.mjs";
import { median, printTable, progress, writeResults } from "../harness/report.mjs";
import { loadDist } from "../load/dist.mjs";
import { openService } from "../load/service.mjs";

const MILLION = 1_000_000;
const DIGITS = 7;
const CALLS_PER_ROUND = 40_000;
const ROUNDS = 41;
/** Most bytes of a value that a bucket key holds as it is. */
const LONG_KEY = 240;
const NS_MOST = 30;
/** Room for a bucket of each key. */
const ENV = { BUCKETS_MAX: String(2 * MILLION) };
const CASES = [
  { what: "one key that passes", rules: "hot", keys: 1 },
  { what: "a million keys that pass", rules: "hot", keys: MILLION },
  { what: "one key that is refused", rules: "refused", keys: 1 },
  { what: "a million keys that are refused", rules: "refused", keys: MILLION },
];

/** A RateLimitRequest of a tenant, whose number is written into it. */
const message = Buffer.concat([
  text(1, "edge"),
  bytes(2, bytes(1, Buffer.concat([text(1, "tenant"), text(2, "0".repeat(DIGITS))]))),
]);
const numberAt = message.length - DIGITS;

function writeNumber(number) {
  let left = number;
  for (let at = numberAt + DIGITS - 1; at >= numberAt; at--) {
    message[at] = 0x30 + (left % 10);
    left = Math.floor(left / 10);
  }
}

/** Calls of so many keys, in no order, as callers come. */
function runOf(service, keys) {
  let random = 1;
  return (calls) => {
    for (let i = 0; i < calls; i++) {
      random = (Math.imul(random, 1_664_525) + 1_013_904_223) >>> 0;
      writeNumber((random >>> 8) % keys);
      service.handle(message, Number.POSITIVE_INFINITY, reply);
    }
  };
}

/** Nanoseconds of CPU per call without and with, round by round: garbage is paid for, other processes are not. */
async function measure({ what, rules, keys }) {
  const ways = [];
  for (const topKeys of ["0", "500"]) {
    const service = await openService({ ...ENV, TOP_KEYS: topKeys }, rules);
    for (let key = 0; key < keys; key++) {
      writeNumber(key);
      service.handle(message, Number.POSITIVE_INFINITY, reply);
    }
    ways.push({ run: runOf(service, keys), ns: [] });
  }
  for (const { run } of ways) run(10 * CALLS_PER_ROUND);
  globalThis.gc?.();
  for (let round = 1; round <= ROUNDS; round++) {
    progress(`${what}, round ${round} of ${ROUNDS}`);
    // Who goes first finds colder caches.
    for (const { run, ns } of round % 2 === 0 ? ways : ways.toReversed()) {
      ns.push(cpuNsPerCall(CALLS_PER_ROUND, () => run(CALLS_PER_ROUND)));
    }
  }
  const [without, with_] = ways.map(({ ns }) => ns);
  return {
    what,
    withoutNs: median(without),
    withNs: median(with_),
    addedNs: median(with_.map((ns, round) => ns - without[round])),
    ratio: median(with_.map((ns, round) => ns / without[round])),
  };
}

const LABELS = { domain: "edge", rule: "tenant", limit: "" };
const START_US = Date.UTC(2026, 0, 1) * 1_000;

/** Counts decided calls of one take, without the service. `count` takes a call's key, whether it was refused, and the time. */
async function openCounter(keysMax) {
  const { LimitCall, NO_FINISHER } = await loadDist("engine/limiter/call.js");
  const { LimitStats } = await loadDist("engine/domain/stats.js");
  const { Outcome } = await loadDist("engine/domain/take.js");
  const { TopKeys } = await loadDist("operate/telemetry/top/top-keys.js");
  const limit = { isCounter: false, stats: new LimitStats(), names: { path: "tenant", readableName: "" } };
  const call = new LimitCall(NO_FINISHER);
  const top = new TopKeys({ keysMax, nowUs: START_US, labelsOf: () => LABELS });
  const prepare = (key, isRefused) => {
    call.reset();
    const take = call.group.add(limit);
    take.keys.write(key);
    take.endKey(0);
    take.mode = 0;
    take.kind = 0;
    take.outcome = isRefused ? Outcome.over : Outcome.room;
    call.decision.overLimit = isRefused;
    return take;
  };
  return { top, call, prepare };
}

/** Nanoseconds of counting alone, at its quickest of many short runs: what other processes take is left out, cold caches, too. */
async function nsAlone({ rules, keys }) {
  const { top, call, prepare } = await openCounter(500);
  const take = prepare("{edge|tenant=1234567}|tb/1", rules === "refused");
  let random = 1;
  let nowUs = START_US;
  const run = (counts) => {
    const start = process.hrtime.bigint();
    for (let i = 0; i < CALLS_PER_ROUND; i++) {
      random = (Math.imul(random, 1_664_525) + 1_013_904_223) >>> 0;
      const key = (random >>> 8) % keys;
      take.keyHash = Math.imul(key + 1, 0x9e3779b1) >>> 0;
      take.keyHash1 = Math.imul(key + 7, 0x85ebca6b);
      nowUs += 1;
      if (counts) top.decided(call, nowUs);
    }
    return Number(process.hrtime.bigint() - start) / CALLS_PER_ROUND;
  };
  const quickest = [true, false].map((counts) => {
    let best = Number.POSITIVE_INFINITY;
    for (let round = 0; round < 100; round++) best = Math.min(best, run(counts));
    return best;
  });
  return quickest[0] - quickest[1];
}

/** Bytes that the counts take after 70 minutes of keys that are new and long, half of them refused, each twice. */
async function bytesAfterFlood(keysMax) {
  globalThis.gc();
  const before = process.memoryUsage();
  const { top, call, prepare } = await openCounter(keysMax);
  for (let second = 0, number = 0; second < 70 * 60; second += 10) {
    for (let i = 0; i < 3 * keysMax; i++, number++) {
      for (let twice = 0; twice < 2; twice++) {
        prepare(`{edge|tenant=${String(number).padStart(LONG_KEY, "k")}}|sw/60`, number % 2 === 0);
        top.decided(call, START_US + second * 1_000_000);
      }
    }
  }
  globalThis.gc();
  const after = process.memoryUsage();
  const bytes = after.heapUsed + after.arrayBuffers - before.heapUsed - before.arrayBuffers;
  return { keysMax, bytes, trackedKeys: top.trackedKeys };
}

const results = [];
for (const each of CASES) results.push({ ...(await measure(each)), aloneNs: await nsAlone(each) });
progress("");
expectDecisions();
printTable(
  `Counting top keys, ${ROUNDS} rounds of ${CALLS_PER_ROUND} calls; ns of CPU per call`,
  results.map(({ what, withoutNs, withNs, addedNs, ratio, aloneNs }) => ({
    calls: what,
    "TOP_KEYS=0": Math.round(withoutNs),
    "TOP_KEYS=500": Math.round(withNs),
    added: addedNs.toFixed(1),
    ratio: ratio.toFixed(3),
    "counting alone": aloneNs.toFixed(1),
    goal: `<= ${NS_MOST} ns alone: ${aloneNs <= NS_MOST ? "met" : "missed"}`,
  })),
);
const flood = await bytesAfterFlood(500);
process.stdout.write(
  `\n${(flood.bytes / 2 ** 20).toFixed(1)} MiB after 70 minutes of new, long keys (${flood.trackedKeys} with text)\n`,
);
results.push({ what: "bytes after 70 minutes of new, long keys", ...flood });
if (process.argv.includes("--write"))
  process.stdout.write(`${writeResults("top-keys", "node --expose-gc bench/micro/top-keys.mjs --write", results)}\n`);
process.exit(0);
