// Which refusals are remembered, which are forgotten, and what is passed on. test/property/denial-memory.test.ts holds
// the answers to those of the store.

import { beforeEach, describe, expect, test } from "vitest";
import { Algorithm } from "../../../../src/engine/domain/limit.ts";
import { Mode, Outcome, Source, type TakeGroup, Verdict } from "../../../../src/engine/domain/take.ts";
import { DenialMemory } from "../../../../src/stores/denials/denial-memory.ts";
import { type Ask, bucketKeyOf, groupOf, takeOf } from "../../../contract/store-harness.ts";
import { makeLimit } from "../../../support/builders.ts";
import { ManualClock } from "../../../support/manual-clock.ts";
import { ScriptedStore } from "../../../support/scripted-store.ts";

const NOBODY = { answered: () => undefined };
const minute = makeLimit({ algorithm: Algorithm.fixedWindow, amount: 10, windowSeconds: 60 });
const sliding = makeLimit({ algorithm: Algorithm.slidingWindow, amount: 10, windowSeconds: 60 });
const bucket = makeLimit({ amount: 10, burst: 10, windowSeconds: 60 });
const global = makeLimit({ algorithm: Algorithm.fixedWindow, amount: 100, windowSeconds: 60, name: "global" });

let clock: ManualClock;
let store: ScriptedStore;
let memory: DenialMemory;
beforeEach(() => {
  clock = new ManualClock();
  store = new ScriptedStore(clock);
  memory = new DenialMemory(store, { clock, entriesMax: 16 });
});

function ask(...asks: Ask[]): TakeGroup {
  const group = groupOf(asks, "");
  memory.take(group, NOBODY);
  return group;
}

/** Uses the limit up and has the store refuse one more. */
function exhaust(limit = minute, identity = "a"): void {
  ask({ limit, identity, cost: limit.burst });
  expect(ask({ limit, identity }).source).toBe(Source.store);
}

const sourceOf = (...asks: Ask[]) => ask(...asks).source;

describe("denial memory", () => {
  test.each([minute, sliding, bucket])("answers the second refusal without the store", (limit) => {
    exhaust(limit);
    const asked = store.seen.length;
    const group = ask({ limit });
    expect(group).toMatchObject({ verdict: Verdict.refused, source: Source.denialMemory });
    expect(takeOf(group, 0)).toMatchObject({ outcome: Outcome.over, paid: false, remaining: 0, paidAtUs: 0 });
    expect(store.seen).toHaveLength(asked);
  });
});

describe("forgetting", () => {
  // Promise(hot): A refund, reset or give-back in this process shows immediately.
  test.each([
    { name: "a refund", act: () => ask({ limit: minute, mode: Mode.refund, cost: 3 }) },
    { name: "a reset", act: () => memory.forget(bucketKeyOf({ limit: minute }, "")) },
  ])("$name takes effect at once", ({ act }) => {
    exhaust();
    act();
    expect(sourceOf({ limit: minute })).toBe(Source.store);
  });

  test("a give-back takes effect at once", () => {
    const paid = ask({ limit: minute, cost: 10 });
    ask({ limit: minute });
    memory.giveBack(paid);
    expect(ask({ limit: minute })).toMatchObject({ verdict: Verdict.allowed, source: Source.store });
  });

  test("an answer to a take that was sent before a refund is not learned", () => {
    ask({ limit: minute, cost: 10 });
    store.holdsBack = true;
    ask({ limit: minute });
    memory.forget(bucketKeyOf({ limit: minute }, ""));
    store.release();
    store.holdsBack = false;
    expect(sourceOf({ limit: minute })).toBe(Source.store);
  });

  test.each([{ isKnown: false }, { isKnown: true }])(
    "an answer to a take that was sent before a call was undone is not learned, known before: $isKnown",
    ({ isKnown }) => {
      ask({ limit: minute, cost: 10 });
      if (isKnown) ask({ limit: minute, cost: 3 });
      store.holdsBack = true;
      expect(ask({ limit: minute, cost: 2 }).source).not.toBe(Source.denialMemory);
      memory.forgetRefusal({ bucketKey: bucketKeyOf({ limit: minute }, "") });
      store.release();
      store.holdsBack = false;
      expect(sourceOf({ limit: minute, cost: 2 })).toBe(Source.store);
      expect(sourceOf({ limit: minute, cost: 2 })).toBe(Source.denialMemory);
    },
  );

  test("a call that was undone itself is still remembered", () => {
    ask({ limit: minute, cost: 10 });
    store.holdsBack = true;
    ask({ limit: minute }, { limit: global });
    memory.forgetRefusal({ bucketKey: bucketKeyOf({ limit: global }, "") });
    store.release();
    store.holdsBack = false;
    expect(sourceOf({ limit: minute }, { limit: global })).toBe(Source.denialMemory);
  });

  test.each([2, 3, 5, 16])("at most as many buckets are known as it may hold: %d", (entriesMax) => {
    memory = new DenialMemory(store, { clock, entriesMax });
    for (let i = 0; i < 40; i++) exhaust(minute, `user-${i}`);
    // From the newest on, until one is unknown.
    let known = 0;
    while (sourceOf({ limit: minute, identity: `user-${39 - known}` }) === Source.denialMemory) known++;
    expect(known).toBeGreaterThan(0);
    expect(known).toBeLessThanOrEqual(entriesMax);
  });

  test("of more buckets than it holds, the oldest go", () => {
    for (let i = 0; i < 100; i++) {
      exhaust(minute, `user-${i}`);
      clock.advanceUs(1);
    }
    const sources = Array.from({ length: 100 }, (_, i) => {
      const group = groupOf([{ limit: minute, identity: `user-${99 - i}` }], "");
      const asked = store.seen.length;
      memory.take(group, NOBODY);
      expect(group.verdict).toBe(Verdict.refused);
      return store.seen.length === asked;
    });
    expect(sources[0]).toBe(true);
    expect(sources.filter((isRemembered) => isRemembered).length).toBeLessThanOrEqual(16);
  });
});

describe("later answers", () => {
  test("reach who waits for them, once, with the generation of the take", () => {
    store.holdsBack = true;
    const heard: [TakeGroup, number][] = [];
    const group = groupOf([{ limit: minute }], "");
    group.generation = 7;
    expect(memory.take(group, { answered: (settled, generation) => heard.push([settled, generation]) })).toBe(false);
    expect(heard).toEqual([]);
    store.release();
    expect(heard).toEqual([[group, 7]]);
    expect(group.verdict).toBe(Verdict.allowed);
  });

  test("of a group that was emptied meanwhile teach nothing", () => {
    ask({ limit: minute, cost: 10 });
    store.holdsBack = true;
    const group = ask({ limit: minute });
    group.reset();
    expect(() => store.release()).not.toThrow();
    store.holdsBack = false;
    expect(sourceOf({ limit: minute })).toBe(Source.store);
  });
});
