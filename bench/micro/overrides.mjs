// What a call costs that brings its limit along (an override), beside calls of the same tenants whose limits stand in a rule
// for each, or in one rule for all: from bytes to bytes, without a network, in turns in one process. Run after `npm run build`:
//   node --expose-gc bench/micro/overrides.mjs [--write]
// The goal is that it costs at most 15% more than either. --write also keeps the figures under bench/results.

import { bytes, callsOf, cpuNsPerCall, expectDecisions, text } from "../harness/handled-calls.mjs";
import { median, printTable, progress, writeResults } from "../harness/report.mjs";
import { openService } from "../load/service.mjs";

/** What the first tenant brings: never used up here, and as large as limits are. */
const AMOUNT = 1_000_000;
const HOUR = 3;
const COUNTS = [10, 1_000, 100_000];
const CALLS_PER_ROUND = 40_000;
const ROUNDS = 21;
const RATIO_MOST = 1.15;
/** Room for one bucket per tenant and way. */
const ENV = { BUCKETS_MAX: "1000000" };

function callsOfTenants(count, bringsLimit) {
  return callsOf(Array.from({ length: count }, (_, i) => messageOf(i, bringsLimit)));
}

/** A RateLimitRequest of tenant `i`. */
function messageOf(i, bringsLimit) {
  const entry = Buffer.concat([text(1, "tenant"), text(2, String(i).padStart(7, "0"))]);
  const limit = Buffer.concat([Buffer.from([1 << 3]), varint(AMOUNT + i), Buffer.from([2 << 3, HOUR])]);
  const descriptor = Buffer.concat([bytes(1, entry), ...(bringsLimit ? [bytes(2, limit)] : [])]);
  return Buffer.concat([text(1, "edge"), bytes(2, descriptor)]);
}

function varint(value) {
  const digits = [];
  for (let rest = value; ; rest = Math.floor(rest / 128)) {
    if (rest < 128) return Buffer.from([...digits, rest]);
    digits.push((rest % 128) | 128);
  }
}

/** Nanoseconds of CPU per call of each way. */
async function measure(count) {
  const ways = [
    {
      service: await openService(ENV, `${count.toLocaleString("en")} limits`),
      run: callsOfTenants(count, false),
      ns: [],
    },
    { service: await openService(ENV, "brought"), run: callsOfTenants(count, false), ns: [] },
    { service: await openService(ENV, "brought"), run: callsOfTenants(count, true), ns: [] },
  ];
  for (const { service, run } of ways) run(service, Math.max(200_000, 3 * count));
  globalThis.gc?.();
  for (let round = 1; round <= ROUNDS; round++) {
    progress(`${count} limits, round ${round} of ${ROUNDS}`);
    for (const { service, run, ns } of ways) {
      ns.push(cpuNsPerCall(CALLS_PER_ROUND, () => run(service, CALLS_PER_ROUND)));
    }
  }
  const [ruleEach, oneRule, overrides] = ways.map(({ ns }) => ns);
  const over = (others) => median(overrides.map((ns, round) => ns / others[round]));
  return {
    limits: count,
    ruleEachNs: median(ruleEach),
    oneRuleNs: median(oneRule),
    overrideNs: median(overrides),
    overRuleEach: over(ruleEach),
    overOneRule: over(oneRule),
  };
}

const results = [];
for (const count of COUNTS) results.push(await measure(count));
progress("");
expectDecisions();
printTable(
  `A call that brings its limit along, ${ROUNDS} rounds of ${CALLS_PER_ROUND} calls; ns of CPU per call`,
  results.map(({ limits, ruleEachNs, oneRuleNs, overrideNs, overRuleEach, overOneRule }) => ({
    "different limits": limits.toLocaleString("en"),
    "a rule each": Math.round(ruleEachNs),
    "one rule": Math.round(oneRuleNs),
    override: Math.round(overrideNs),
    "over a rule each": overRuleEach.toFixed(2),
    "over one rule": overOneRule.toFixed(2),
    goal: `<= ${RATIO_MOST}: ${Math.max(overRuleEach, overOneRule) <= RATIO_MOST ? "met" : "missed"}`,
  })),
);
if (process.argv.includes("--write"))
  process.stdout.write(`${writeResults("overrides", "node --expose-gc bench/micro/overrides.mjs --write", results)}\n`);
process.exit(0);
