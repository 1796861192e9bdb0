// What counting top keys (TOP_KEYS) adds to a call: from bytes to bytes, without a network, with and without it in turns in one
// process, on one key and on a million in no order, where all pass and where all are refused. Run after `npm run build`:
//   node --expose-gc bench/micro/top-keys.mjs [--write]
// The goal is 30 ns a call at most. --write also keeps the figures under bench/results.

import { median, printTable, progress, writeResults } from "../harness/report.mjs";
import { openService } from "../load/service.mjs";

const MILLION = 1_000_000;
const DIGITS = 7;
const CALLS_PER_ROUND = 40_000;
const ROUNDS = 41;
const NS_MOST = 30;
/** Room for a bucket of each key. */
const ENV = { BUCKETS_MAX: String(2 * MILLION) };
const CASES = [
  { what: "one key that passes", rules: "hot", keys: 1 },
  { what: "a million keys that pass", rules: "hot", keys: MILLION },
  { what: "one key that is refused", rules: "refused", keys: 1 },
  { what: "a million keys that are refused", rules: "refused", keys: MILLION },
];

const answer = { bytes: 0, failed: 0 };
const reply = {
  traceparent: undefined,
  ok: (bytes) => {
    answer.bytes += bytes.length;
  },
  fail: () => {
    answer.failed++;
  },
};

/** A RateLimitRequest of a tenant, whose number is written into it. */
const message = Buffer.concat([
  field(1, Buffer.from("edge")),
  field(2, field(1, Buffer.concat([text(1, "tenant"), text(2, "0".repeat(DIGITS))]))),
]);
const numberAt = message.length - DIGITS;

function text(number, value) {
  return field(number, Buffer.from(value));
}

function field(number, value) {
  return Buffer.concat([Buffer.from([(number << 3) | 2, value.length]), value]);
}

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
      const before = process.cpuUsage();
      run(CALLS_PER_ROUND);
      const { user, system } = process.cpuUsage(before);
      ns.push(((user + system) * 1_000) / CALLS_PER_ROUND);
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

const results = [];
for (const each of CASES) results.push(await measure(each));
progress("");
if (answer.failed > 0) throw new Error(`${answer.failed} calls were not answered by a decision`);
printTable(
  `Counting top keys, ${ROUNDS} rounds of ${CALLS_PER_ROUND} calls; ns of CPU per call`,
  results.map(({ what, withoutNs, withNs, addedNs, ratio }) => ({
    calls: what,
    "TOP_KEYS=0": Math.round(withoutNs),
    "TOP_KEYS=500": Math.round(withNs),
    added: addedNs.toFixed(1),
    ratio: ratio.toFixed(3),
    goal: `<= ${NS_MOST} ns: ${addedNs <= NS_MOST ? "met" : "missed"}`,
  })),
);
if (process.argv.includes("--write"))
  process.stdout.write(`${writeResults("top-keys", "node --expose-gc bench/micro/top-keys.mjs --write", results)}\n`);
process.exit(0);
