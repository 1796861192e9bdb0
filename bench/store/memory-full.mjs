// What the memory store takes with every bound full, in resident memory: a million buckets, all bytes of sliding logs, all holds, each in
// a bucket of its own, and all settled ids. Run after `npm run build`:
//
//   node --expose-gc bench/store/memory-full.mjs

import { payHit } from "../harness/pay-hit.mjs";
import { loadDist } from "../load/dist.mjs";

const { Algorithm, HOLDS_IN_MEMORY_MAX } = await loadDist("engine/domain/limit.js");
const { Mode, TakeGroup } = await loadDist("engine/domain/take.js");
const { LimitStats } = await loadDist("engine/domain/stats.js");
const { MemoryStore } = await loadDist("stores/memory/memory-store.js");

const BUCKETS_MAX = 1_000_000;
const LOG_BYTES_MAX = 134_217_728;
const LOG_PAYMENTS = 1_000;
const SETTLED = HOLDS_IN_MEMORY_MAX / 10;
const ID = "x".repeat(64);
// Payments of one moment would be one payment of a log.
const clock = {
  us: Date.UTC(2026, 0, 1) * 1_000,
  nowUs: () => clock.us++,
  shift: { us: 0, changedAtUs: Number.NEGATIVE_INFINITY },
};
const store = new MemoryStore({
  clock,
  bucketsMax: BUCKETS_MAX,
  logBytesMax: LOG_BYTES_MAX,
  holdsMax: HOLDS_IN_MEMORY_MAX,
});
const group = new TakeGroup();

function limitOf(algorithm, holdSeconds) {
  const amount = 1_000;
  const rest = { isConcurrent: false, isCounter: false, stats: new LimitStats(), keySuffix: "" };
  return { algorithm, amount, burst: amount, windowSeconds: 864_000, debtMax: amount, holdSeconds, ...rest };
}

function take(limit, name, holdId, mode = Mode.pay) {
  group.reset();
  const asked = group.add(limit);
  asked.holdId = holdId;
  const at = group.keys.end;
  group.keys.write(name);
  payHit(store, group, asked, at, mode);
  if (group.verdict !== 1) throw new Error(`expected room for ${name}`);
}

const idOf = (i) => (i + ID).slice(0, ID.length);
const bucket = limitOf(Algorithm.tokenBucket, 0);
const held = limitOf(Algorithm.tokenBucket, 864_000);
const log = limitOf(Algorithm.slidingLog, 0);
const logs = Math.floor(LOG_BYTES_MAX / (17 * LOG_PAYMENTS));
const STEPS = [
  [
    "a settled id",
    SETTLED,
    (i) => take(held, `held ${i}`, idOf(i)),
    (i) => take(held, `held ${i}`, idOf(i), Mode.settle),
  ],
  ["a live hold and its bucket", HOLDS_IN_MEMORY_MAX, (i) => take(held, `held ${i}`, idOf(i + SETTLED))],
  ["a bucket", BUCKETS_MAX - HOLDS_IN_MEMORY_MAX - logs, (i) => take(bucket, `plain ${i}`, "")],
  ["a payment of a log", logs * LOG_PAYMENTS, (i) => take(log, `log ${i % logs}`, "")],
];

const resident = () => {
  globalThis.gc();
  return process.memoryUsage().rss;
};
const startBytes = resident();
let beforeBytes = startBytes;
const rows = [];
for (const [what, count, ...works] of STEPS) {
  for (const work of works) for (let i = 0; i < count; i++) work(i);
  const bytes = resident();
  rows.push({
    what,
    count,
    bytes: Math.round((bytes - beforeBytes) / count),
    MB: Math.round((bytes - beforeBytes) / 1e6),
  });
  beforeBytes = bytes;
}
rows.push({ what: "all", MB: Math.round((beforeBytes - startBytes) / 1e6) });
console.table(rows);
await store.close();
