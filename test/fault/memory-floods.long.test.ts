// What the memory store's settings bound is bounded in the resident memory of a process, too; and of millions of keys no
// two share a bucket.

import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { keyedOf } from "../../src/engine/domain/key-bytes.ts";
import { Mode, TakeGroup } from "../../src/engine/domain/take.ts";
import { MemoryStore } from "../../src/stores/memory/memory-store.ts";
import { makeLimit } from "../support/builders.ts";
import { ManualClock } from "../support/manual-clock.ts";

const DIST = join(import.meta.dirname, "../../dist");
const MB = 1_000_000;
const BUCKETS_MAX = 100_000;
const LOG_BYTES_MAX = 24 * MB;
/** What a process may take more than its store: garbage on its way, memory that the allocator keeps. */
const MARGIN_BYTES = 60 * MB;

const FLOODS = `
const { TakeGroup } = await import("${DIST}/engine/domain/take.js");
const { LimitStats } = await import("${DIST}/engine/domain/stats.js");
const { MemoryStore } = await import("${DIST}/stores/memory/memory-store.js");
const clock = { us: 1_767_225_600_000_000, nowUs: () => clock.us };
const limitOf = (algorithm, amount) => ({ algorithm, amount, burst: amount, windowSeconds: 60, debtMax: amount, stats: new LimitStats() });
const group = new TakeGroup();
let store = new MemoryStore({ clock, bucketsMax: ${BUCKETS_MAX}, logBytesMax: ${LOG_BYTES_MAX} });
const take = (limit, key) => {
  group.reset();
  const asked = group.add(limit);
  const at = group.keys.end;
  group.keys.write(key);
  asked.endKey(at);
  asked.descriptor = 0;
  asked.kind = 0;
  asked.mode = 0;
  asked.cost = 1;
  store.take(group);
};
const bucket = limitOf(0, 10);
const log = limitOf(3, 1_000);
const text = "k".repeat(65_536);
// All code has run, and the process has its working size.
for (let i = 0; i < 300_000; i++) take(i % 2 === 0 ? bucket : log, i % 100 + text.slice(0, i % 900));
void store.close();
store = new MemoryStore({ clock, bucketsMax: ${BUCKETS_MAX}, logBytesMax: ${LOG_BYTES_MAX} });
gc();
const before = process.memoryUsage().rss;
let most = 0;
const look = () => { most = Math.max(most, process.memoryUsage().rss - before); };
for (let flood = 0; flood < 12; flood++) {
  for (let i = 0; i < 150_000; i++) {
    take(bucket, flood + ":" + i + text.slice(0, i % 1_000 === 0 ? 65_536 : (flood * 71 + (i % 7)) % 900));
    if (i % 10_000 === 0) look();
  }
  if (flood % 3 === 2) clock.us += 61_000_000;
}
for (let round = 0; round < 4; round++) {
  for (let i = 0; i < 1_000_000; i++) {
    clock.us += 1;
    take(log, "log-" + round % 2 + ":" + i % 6_000);
    if (i % 10_000 === 0) look();
  }
  if (round === 1) clock.us += 61_000_000;
}
console.log(JSON.stringify({ most, bytes: store.bytes }));
process.exit();
`;

// Promise(input): The memory store takes at most 150 bytes for each of BUCKETS_MAX, 134 more for sliding logs, in floods of any keys.
test("resident memory grows by no more than 150 bytes per bucket and the log budget, in floods of all lengths", async () => {
  const { stdout } = await promisify(execFile)(process.execPath, ["--expose-gc", "--input-type=module", "-e", FLOODS]);
  const { most, bytes } = JSON.parse(stdout) as { most: number; bytes: number };
  const bound = BUCKETS_MAX * 150 + LOG_BYTES_MAX;
  expect(bytes).toBeLessThanOrEqual(bound);
  expect(most).toBeLessThanOrEqual(bound + MARGIN_BYTES);
  // And the logs did fill their budget.
  expect(bytes).toBeGreaterThan(LOG_BYTES_MAX);
}, 600_000);

// Promise(input): In memory, keys share a bucket only if all 128 bits of their hashes are equal; among three million none do.
test("of three million keys each meets a bucket of its own", () => {
  const store = new MemoryStore({ clock: new ManualClock(), bucketsMax: 4 * MB });
  const limit = makeLimit({ amount: 3, burst: 3, windowSeconds: 3_600 });
  const group = new TakeGroup();
  const shared: string[] = [];
  for (let i = 0; i < 3 * MB; i++) {
    group.reset();
    const asked = group.add(limit);
    const key = `{edge|user=${i}}|tb/1`;
    asked.useKeyOf(keyedOf(key));
    Object.assign(asked, { descriptor: 0, mode: Mode.pay, cost: 1 });
    store.take(group);
    if (asked.remaining !== 2) shared.push(key);
  }
  expect([shared, store.bucketCount]).toEqual([[], 3 * MB]);
  expect(store.bytes / store.bucketCount).toBeLessThan(150);
}, 600_000);
