// What a call costs whose limit hangs on an entry (`priority`, `tier`) or on a calendar, beside the same bytes where nothing does:
// from bytes to bytes, in memory, without a network, in turns in one process. Run after `npm run build`:
//   node --expose-gc bench/micro/limits-by-entry.mjs [--write]
// The goal is that it costs at most 5% more. --write also keeps the figures under bench/results.

import { bytes, callsOf, cpuNsPerCall, expectDecisions, text } from "../harness/handled-calls.mjs";
import { median, printTable, progress, writeResults } from "../harness/report.mjs";
import { openService } from "../load/service.mjs";

const CALLS_PER_ROUND = 40_000;
const ROUNDS = 41;
const RATIO_MOST = 1.05;
const TENANTS = 1_000;

/** Each with what it stands beside: rules by their names in bench/load/rules.mjs, and whether calls bring the entry. */
const PAIRS = [
  { name: "low priority, no entry", rules: "priority", beside: "hot", hasEntry: false },
  { name: "high priority", rules: "priority", beside: "skipped", hasEntry: true },
  { name: "low priority of the domain", rules: "global priority", beside: "global", hasEntry: false },
  { name: "the default of a tier", rules: "tiers", beside: "hot", hasEntry: false },
  { name: "another name of a tier", rules: "tiers", beside: "skipped", hasEntry: true },
  { name: "a window of a calendar", rules: "window of a calendar", beside: "window of 30 days", hasEntry: false },
];

function messagesOf(hasEntry) {
  return Array.from({ length: TENANTS }, (_, i) => {
    const entries = [entry("tenant", String(i).padStart(7, "0")), ...(hasEntry ? [entry("class", "high")] : [])];
    return Buffer.concat([text(1, "edge"), bytes(2, Buffer.concat(entries.map((one) => bytes(1, one))))]);
  });
}

function entry(key, value) {
  return Buffer.concat([text(1, key), text(2, value)]);
}

/** By the name of their rules. */
const services = new Map();

async function measure({ name, rules, beside, hasEntry }) {
  const ways = [];
  for (const of of [beside, rules]) {
    if (!services.has(of)) services.set(of, await openService({}, of));
    ways.push({ service: services.get(of), ns: [] });
  }
  const run = callsOf(messagesOf(hasEntry));
  for (const { service } of ways) run(service, 200_000);
  globalThis.gc?.();
  for (let round = 1; round <= ROUNDS; round++) {
    progress(`${name}, round ${round} of ${ROUNDS}`);
    // The two ways take turns to be first, so that other work on the machine slows both alike.
    for (const { service, ns } of round % 2 === 0 ? ways : [...ways].reverse()) {
      ns.push(cpuNsPerCall(CALLS_PER_ROUND, () => run(service, CALLS_PER_ROUND)));
    }
  }
  const [without, by] = ways.map(({ ns }) => ns);
  return {
    name,
    besideNs: median(without),
    ns: median(by),
    ratio: median(by.map((ns, round) => ns / without[round])),
  };
}

const results = [];
for (const pair of PAIRS) results.push(await measure(pair));
progress("");
expectDecisions();
printTable(
  `A call whose limit hangs on an entry or a calendar, ${ROUNDS} rounds of ${CALLS_PER_ROUND} calls; ns of CPU per call`,
  results.map(({ name, besideNs, ns, ratio }) => ({
    name,
    without: Math.round(besideNs),
    with: Math.round(ns),
    ratio: ratio.toFixed(3),
    goal: `<= ${RATIO_MOST}: ${ratio <= RATIO_MOST ? "met" : "missed"}`,
  })),
);
if (process.argv.includes("--write"))
  process.stdout.write(
    `${writeResults("limits-by-entry", "node --expose-gc bench/micro/limits-by-entry.mjs --write", results)}\n`,
  );
process.exit(0);
