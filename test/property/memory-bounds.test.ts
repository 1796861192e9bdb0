// The memory store's bytes are bounded by its settings, whatever keys come and go, of whatever length, and however many
// entries sliding logs have.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Algorithm, type Limit } from "../../src/engine/domain/limit.ts";
import { Kind, Mode, Outcome, TakeGroup, Verdict } from "../../src/engine/domain/take.ts";
import { openLocalStore } from "../../src/process/app/open-store.ts";
import { readSettings } from "../../src/settings/settings.ts";
import { LOG_BLOCK_BYTES as BLOCK_BYTES } from "../../src/stores/memory/buckets.ts";
import { MemoryStore } from "../../src/stores/memory/memory-store.ts";
import { SILENT_STORE_OBSERVER } from "../../src/stores/store-observer.ts";
import { makeLimit } from "../support/builders.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { runs } from "../support/runs.ts";

const BYTES_PER_BUCKET_MAX = 150;
/** What an empty store of few buckets has. */
const EMPTY_BYTES = 17_000;
const KEY_BYTES_MAX = 16_384;

function take(store: MemoryStore, group: TakeGroup, limit: Limit, key: string, mode: Mode = Mode.pay): void {
  group.reset();
  const asked = group.add(limit);
  const at = group.keys.end;
  group.keys.write(key);
  asked.endKey(at);
  asked.descriptor = 0;
  asked.kind = Kind.ordinary;
  asked.mode = mode;
  asked.cost = 1;
  store.take(group);
}

describe("the memory store's bytes", () => {
  const limits = [
    makeLimit({ amount: 10, burst: 10, windowSeconds: 60, name: "short" }),
    makeLimit({ amount: 10, burst: 10, windowSeconds: 86_400, name: "long" }),
    makeLimit({ algorithm: Algorithm.slidingWindow, amount: 10, windowSeconds: 3_600 }),
    makeLimit({ algorithm: Algorithm.fixedWindow, amount: 10, windowSeconds: 1 }),
    makeLimit({ algorithm: Algorithm.slidingLog, amount: 50, windowSeconds: 30 }),
    makeLimit({ algorithm: Algorithm.slidingLog, amount: 1_000, windowSeconds: 3_600, name: "many" }),
  ];
  /** A flood: so many keys of about that length, asked so often each, under that limit, some time after the one before. */
  const flood = fc.record({
    keys: fc.integer({ min: 1, max: 1_500 }),
    length: fc.oneof(fc.integer({ min: 1, max: 300 }), fc.constantFrom(1, 2, 95, 96, KEY_BYTES_MAX)),
    times: fc.constantFrom(1, 1, 1, 3),
    limit: fc.constantFrom(...limits),
    advanceSeconds: fc.constantFrom(0, 0, 1, 40, 90_000),
    seed: fc.nat({ max: 5 }),
  });

  // Promise(input): The memory store takes at most 150 bytes for each of BUCKETS_MAX, 134 more for sliding logs, in floods of any keys.
  test("stay within 150 for each of BUCKETS_MAX and the log budget, in floods of keys of any length", () => {
    const bounds = fc.record({
      bucketsMax: fc.oneof(fc.integer({ min: 1, max: 2_000 }), fc.constantFrom(383, 384, 385, 768, 1_536)),
      logBytesMax: fc.integer({ min: BLOCK_BYTES, max: 400_000 }),
    });
    fc.assert(
      fc.property(bounds, fc.array(flood, { minLength: 1, maxLength: 8 }), ({ bucketsMax, logBytesMax }, floods) => {
        const clock = new ManualClock();
        let evicted = 0;
        const observer = { ...SILENT_STORE_OBSERVER, evicted: () => (evicted += 1) };
        const store = new MemoryStore({ clock, bucketsMax, logBytesMax, observer });
        const group = new TakeGroup();
        let made = 0;
        for (const { keys, length, times, limit, advanceSeconds, seed } of floods) {
          clock.advanceSeconds(advanceSeconds);
          for (let i = 0; i < keys * times; i++) {
            take(store, group, limit, `${seed}:${i % keys}:${limit.names.name}:${limit.algorithm}`.padEnd(length, "k"));
          }
          made += keys;
          expect(store.bucketCount).toBeLessThanOrEqual(bucketsMax);
          expect(store.bytes).toBeLessThanOrEqual(bucketsMax * BYTES_PER_BUCKET_MAX + logBytesMax + EMPTY_BYTES);
        }
        if (made <= bucketsMax) expect(evicted).toBe(0);
        void store.close();
      }),
      { numRuns: runs(25) },
    );
  });

  // Promise(input): With every bound of the memory store full, by default, its tables take at most 384 of a container's 512 MiB.
  test("leave room for the rest of the process where every bound is full", () => {
    const choice = { settings: readSettings({}), clock: new ManualClock(), observer: SILENT_STORE_OBSERVER };
    const store = openLocalStore(choice) as MemoryStore;
    expect(store.bytesMax / 2 ** 20).toBeLessThan(384);
    void store.close();
  });

  // Promise(input): The memory of expired buckets is used again.
  test("grow no more once what has expired makes room for the next flood, of buckets and of logs", () => {
    const clock = new ManualClock();
    const store = new MemoryStore({ clock, bucketsMax: 10_000, logBytesMax: 2_000_000 });
    const group = new TakeGroup();
    const bytes: number[] = [];
    for (let round = 0; round < 6; round++) {
      for (let i = 0; i < 3_000; i++) {
        const limit = limits[i % 10 === 0 ? 4 : 0] as Limit;
        for (let times = i % 100 === 0 ? 20 : 1; times > 0; times--) {
          clock.advanceUs(1);
          take(store, group, limit, `${round}:${i}`.padEnd((i * 13) % 700, "k"));
          expect(group.verdict).not.toBe(Verdict.failed);
        }
      }
      bytes.push(store.bytes);
      clock.advanceSeconds(120);
    }
    expect(bytes.at(-1)).toBeLessThanOrEqual((bytes[1] as number) * 1.25);
    void store.close();
  });

  test("leave takes unanswered that a log has no room for, and no others", () => {
    const clock = new ManualClock();
    let failed = 0;
    const observer = { ...SILENT_STORE_OBSERVER, failed: () => (failed += 1) };
    const logBytesMax = 100 * BLOCK_BYTES;
    const store = new MemoryStore({ clock, bucketsMax: 1_000, logBytesMax, observer });
    const group = new TakeGroup();
    const log = limits[4] as Limit;
    let unanswered = 0;
    for (let i = 0; i < 150; i++) {
      take(store, group, log, `user-${i}`);
      if (group.takes[0]?.outcome !== Outcome.unanswered) continue;
      unanswered++;
      expect([group.verdict, group.failure?.code, group.takes[0].paid]).toEqual([
        Verdict.failed,
        "STORE_LOGS_FULL",
        false,
      ]);
    }
    expect([unanswered, failed, store.bytes < logBytesMax + EMPTY_BYTES]).toEqual([50, 50, true]);
    // Those that are there go on, and so does everything that needs no entry.
    take(store, group, log, "user-1");
    expect(group.verdict).toBe(Verdict.allowed);
    take(store, group, log, "user-149", Mode.peek);
    expect(group.verdict).toBe(Verdict.allowed);
    take(store, group, limits[0] as Limit, "user-149");
    expect(group.verdict).toBe(Verdict.allowed);
    clock.advanceSeconds(31);
    // What has expired is found by new buckets or by the sweep, and its room is used again.
    for (let i = 0; i < 400; i++) take(store, group, limits[0] as Limit, `other-${i}`);
    take(store, group, log, "user-200");
    expect(group.verdict).toBe(Verdict.allowed);
    void store.close();
  });

  test("a refusal holds although another take of the call has no room, and pays nothing", () => {
    const clock = new ManualClock();
    const store = new MemoryStore({ clock, logBytesMax: BLOCK_BYTES });
    const group = new TakeGroup();
    take(store, group, limits[4] as Limit, "user-1");
    const full = makeLimit({ algorithm: Algorithm.fixedWindow, amount: 0, name: "full" });
    const fill = (others: readonly Limit[]) => {
      group.reset();
      for (const [i, limit] of [limits[4] as Limit, ...others].entries()) {
        const asked = group.add(limit);
        const at = group.keys.end;
        group.keys.write(`user-2 ${limit.names.name}`);
        asked.endKey(at);
        Object.assign(asked, { descriptor: i, kind: Kind.ordinary, mode: Mode.pay, cost: 1 });
      }
      store.take(group);
      return [group.verdict, ...group.takes.slice(0, group.size).map(({ outcome, paid }) => [outcome, paid])];
    };
    expect(fill([full])).toEqual([Verdict.refused, [Outcome.unanswered, false], [Outcome.never, false]]);
    expect(fill([limits[0] as Limit])).toEqual([Verdict.failed, [Outcome.unanswered, false], [Outcome.room, true]]);
    void store.close();
  });
});
