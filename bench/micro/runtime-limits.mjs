// What limits at run time cost: a call in a domain that has none, of a caller that has none beside 100,000 that have, and of callers that have
// one, each beside the same call under a plain rule; and the memory and the time of 50,000 and 100,000 of them. From bytes to bytes, without a
// network, in turns in one process. Run after `npm run build`:
//   node --expose-gc bench/micro/runtime-limits.mjs [--write]
// The goals: at most 5% more per call, 400 bytes each with keys of 40 bytes, 50,000 loaded within a second.

import { join } from "node:path";
import { bytes, callsOf, cpuNsPerCall, expectDecisions, text } from "../harness/handled-calls.mjs";
import { median, printTable, progress, writeResults } from "../harness/report.mjs";
import { temporaryFolder } from "../harness/temporary-folder.mjs";
import { loadDist } from "../load/dist.mjs";
import { openService } from "../load/service.mjs";

const CALLS_PER_ROUND = 40_000;
const ROUNDS = 31;
const ENV = { BUCKETS_MAX: "1000000" };
const LIMITS = 100_000;
/** With the domain and the key of the entry, 40 bytes. */
const nameOf = (i) => `customer-${String(i).padStart(20, "0")}`;

const { keep, keyText, valueText } = await loadDist("engine/runtime/runtime-limit.js");
const { RuntimeTable } = await loadDist("engine/runtime/runtime-table.js");
const { RuntimeSync } = await loadDist("rule-sources/runtime/runtime-sync.js");
const { writeLimitsFile } = await loadDist("rule-sources/runtime/limits-file.js");
const { memoryRuntimeStore } = await loadDist("stores/memory/runtime-store.js");
const { SystemClock } = await loadDist("base/clock.js");

const limitOf = (domain, i) => {
  const amounts = [{ limit: "", requests: 1_000_000 + (i % 10), unit: 0, burst: undefined }];
  const value = valueText({ change: { kind: "amounts", amounts }, untilUs: 0, note: "", who: "bench" });
  return keep(keyText({ domain, entries: [["tenant", nameOf(i)]] }), value, i + 1);
};

function message(i) {
  const entry = Buffer.concat([text(1, "tenant"), text(2, nameOf(i))]);
  return Buffer.concat([text(1, "edge"), bytes(2, bytes(1, entry))]);
}

async function serviceWith(domain, count) {
  return openService(ENV, "brought", (parts) => {
    const { table } = parts.runtimeLimits.limits;
    for (let i = 0; i < count; i++) table.put(limitOf(domain, i));
    return undefined;
  });
}

const plain = await serviceWith("edge", 0);
const elsewhere = await serviceWith("other", LIMITS);
const full = await serviceWith("edge", LIMITS);
const hot = callsOf([message(7)]);
const without = callsOf([message(LIMITS + 7)]);
const some = callsOf(Array.from({ length: 1_000 }, (_, i) => message(i)));
const many = callsOf(Array.from({ length: 50_000 }, (_, i) => message(i)));
const ways = [
  { name: "none anywhere", service: plain, run: hot, beside: undefined },
  { name: "none in the domain, 100,000 in another", service: elsewhere, run: hot, beside: hot },
  { name: "none of the caller, 100,000 in the domain", service: full, run: without, beside: without },
  { name: "one of the caller, hot", service: full, run: hot, beside: hot },
  { name: "one of each of 1,000 callers", service: full, run: some, beside: some },
  { name: "one of each of 50,000 callers", service: full, run: many, beside: many },
];
for (const { service, run, beside } of ways) {
  run(service, 200_000);
  beside?.(plain, 200_000);
}
globalThis.gc?.();
for (const way of ways) {
  way.ns = [];
  way.ratios = [];
}
for (let round = 1; round <= ROUNDS; round++) {
  progress(`round ${round} of ${ROUNDS}`);
  for (const { service, run, beside, ns, ratios } of ways) {
    const own = cpuNsPerCall(CALLS_PER_ROUND, () => run(service, CALLS_PER_ROUND));
    ns.push(own);
    ratios.push(own / cpuNsPerCall(CALLS_PER_ROUND, () => (beside ?? run)(plain, CALLS_PER_ROUND)));
  }
}
progress("");
expectDecisions();
const results = ways.map(({ name, ns, ratios }) => ({ name, ns: median(ns), ratio: median(ratios) }));
printTable(
  `A call, ${ROUNDS} rounds of ${CALLS_PER_ROUND} calls; ns of CPU per call`,
  results.map(({ name, ns, ratio }) => ({
    "limits at run time": name,
    ns: Math.round(ns),
    "beside a plain rule": ratio.toFixed(3),
  })),
);

const sizes = [];
for (const count of [50_000, 100_000]) {
  globalThis.gc?.();
  const before = process.memoryUsage().heapUsed;
  const table = new RuntimeTable();
  for (let i = 0; i < count; i++) table.put(limitOf("edge", i));
  globalThis.gc?.();
  const bytesEach = (process.memoryUsage().heapUsed - before) / count;
  const file = join(temporaryFolder(), "limits");
  await writeLimitsFile(file, table, 0);
  const again = new RuntimeTable();
  const log = { warn: console.error, info: () => undefined };
  const clock = new SystemClock();
  const store = memoryRuntimeStore(again, clock, count);
  const sync = new RuntimeSync({ table: again, store, file, clock, log, unread: () => undefined });
  const beganMs = performance.now();
  await sync.start();
  const loadMs = performance.now() - beganMs;
  if (again.size !== count) throw new Error(`expected ${count} limits, got ${again.size}`);
  sizes.push({ limits: count, bytesEach, loadMs });
}
printTable(
  "Memory of the table, and loading it from its file",
  sizes.map(({ limits, bytesEach, loadMs }) => ({
    limits,
    "bytes each": Math.round(bytesEach),
    "loaded in ms": Math.round(loadMs),
  })),
);
if (process.argv.includes("--write")) {
  writeResults("runtime-limits", "node --expose-gc bench/micro/runtime-limits.mjs", { results, sizes });
}
process.exit(0);
