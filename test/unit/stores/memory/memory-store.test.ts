// What the memory store adds to settlement and buckets: bounds, reports, the sweep in the background.

import { afterEach, describe, expect, test, vi } from "vitest";
import { Algorithm } from "../../../../src/engine/domain/limit.ts";
import { Mode, TakeGroup } from "../../../../src/engine/domain/take.ts";
import { MemoryStore } from "../../../../src/stores/memory/memory-store.ts";
import { SILENT_STORE_OBSERVER } from "../../../../src/stores/store-observer.ts";
import { type Ask, fillGroup, takeOf } from "../../../contract/store-harness.ts";
import { makeLimit } from "../../../support/builders.ts";
import { ManualClock } from "../../../support/manual-clock.ts";

const limit = makeLimit({ amount: 10, burst: 10 });

function take(store: MemoryStore, ...asks: readonly Ask[]): TakeGroup {
  const group = new TakeGroup();
  fillGroup(group, asks, "", false);
  store.take(group);
  return group;
}

describe("memory store", () => {
  afterEach(() => vi.useRealTimers());

  test("counts what it had to evict", () => {
    let evicted = 0;
    const observer = { ...SILENT_STORE_OBSERVER, evicted: (buckets: number) => (evicted += buckets) };
    const store = new MemoryStore({ clock: new ManualClock(), bucketsMax: 100, observer });
    for (let i = 0; i < 130; i++) take(store, { limit, identity: `user${i}` });
    expect([store.bucketCount, evicted]).toEqual([100, 30]);
    void store.close();
  });

  test("reports how many takes it gave back", () => {
    let gaveBack = 0;
    const observer = { ...SILENT_STORE_OBSERVER, gaveBack: (takes: number) => (gaveBack += takes) };
    const store = new MemoryStore({ clock: new ManualClock(), observer });
    const group = take(store, { limit, cost: 4 }, { limit, identity: "b", cost: 4 });
    store.giveBack(group);
    expect([gaveBack, store.bucketCount]).toEqual([2, 0]);
    void store.close();
  });

  test.each(Object.values(Algorithm))(
    "forgets a bucket of algorithm %i with its log and its holds, and no other",
    (algorithm) => {
      const clock = new ManualClock();
      const store = new MemoryStore({ clock });
      const hasHolds = algorithm === Algorithm.tokenBucket || algorithm === Algorithm.fixedWindow;
      const own = makeLimit({ algorithm, amount: 1_000, windowSeconds: 60, holdSeconds: hasHolds ? 30 : 0 });
      const pay = (identity: string, count: number) => {
        for (let i = 0; i < count; i++) take(store, { limit: own, identity, cost: 3 });
      };
      const left = (identity: string) => takeOf(take(store, { limit: own, identity, mode: Mode.peek }), 0).remaining;
      // Some payments are old when the bucket is forgotten.
      pay("a", 40);
      clock.advanceSeconds(20);
      pay("a", 40);
      pay("b", 1);
      store.forget(takeOf(take(store, { limit: own, identity: "a", mode: Mode.peek }), 0));
      expect([left("a"), left("b")]).toEqual([1_000, 997]);
      expect(store.bucketCount).toBe(1);
      // Nothing of it comes back, and what it had can be used again.
      clock.advanceSeconds(35);
      pay("a", 80);
      expect(left("a")).toBe(760);
      void store.close();
    },
  );

  test("sweeps idle buckets in the background, and rests when none is left", () => {
    vi.useFakeTimers();
    const clock = new ManualClock();
    const store = new MemoryStore({ clock });
    for (let i = 0; i < 1_000; i++) take(store, { limit, identity: `user${i}` });
    expect(vi.getTimerCount()).toBe(1);
    clock.advanceSeconds(2);
    vi.advanceTimersByTime(50);
    expect([store.bucketCount, vi.getTimerCount()]).toEqual([0, 0]);
    take(store, { limit });
    expect(vi.getTimerCount()).toBe(1);
    void store.close();
    expect(vi.getTimerCount()).toBe(0);
  });
});
