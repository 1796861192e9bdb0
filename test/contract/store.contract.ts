// What every store does with groups: all or nothing, kinds, modes, receipts. algorithm.contract.ts has the numbers.

import { beforeEach, describe, expect, test } from "vitest";
import { ALGORITHM_NAMES, Algorithm } from "../../src/engine/domain/limit.ts";
import { GLOBAL_DESCRIPTOR, Kind, Mode, Outcome, Source, Verdict } from "../../src/engine/domain/take.ts";
import { makeLimit } from "../support/builders.ts";
import { advance, ask, type HarnessFactory, look, SECOND_US, type StoreHarness, takeOf } from "./store-harness.ts";

const perMinute = makeLimit({ algorithm: Algorithm.slidingWindow, amount: 10, windowSeconds: 60 });
const perHour = makeLimit({ algorithm: Algorithm.fixedWindow, amount: 20, windowSeconds: 3_600 });
const bucket = makeLimit({ algorithm: Algorithm.tokenBucket, amount: 10, burst: 10, windowSeconds: 60 });
const log = makeLimit({ algorithm: Algorithm.slidingLog, amount: 10, windowSeconds: 60 });
const full = makeLimit({ algorithm: Algorithm.fixedWindow, amount: 0, windowSeconds: 60, name: "full" });
const ALL = [bucket, perMinute, perHour, log].map((limit) => ({ limit, name: ALGORITHM_NAMES[limit.algorithm] }));
/** One algorithm for all. */
export const ONE_LIMIT = ALL.slice(0, 1);

/**
 * Runs the contract of stores. `factory` makes a fresh one for each test. What differs between algorithms is tried with each of
 * `limits`: with one alone where test/property compares the store with another that has run all.
 */
export function describeStoreContract(name: string, factory: HarnessFactory, limits = ALL): void {
  // Promise(limits): Every store keeps the same contract.
  describe(`contract of the ${name}`, () => {
    let harness: StoreHarness;
    beforeEach(async () => {
      harness = await factory();
    });

    const open = () => harness;
    describeGroups(open);
    describeBuckets(open, limits);
    describeKinds(open);
    describeModes(open, limits);
    describeGivingBack(open, limits);
    describeReceipts(open);
  });
}

function describeGroups(open: () => StoreHarness): void {
  describe("groups", () => {
    test("an empty group is allowed", async () => {
      expect(await ask(open(), [])).toMatchObject({
        verdict: Verdict.allowed,
        source: Source.store,
        failure: undefined,
      });
    });

    test("pays all limits of a descriptor when each has room", async () => {
      const group = await ask(
        open(),
        ALL.map(({ limit }) => ({ limit, descriptor: 0, cost: 3 })),
      );
      expect(group.verdict).toBe(Verdict.allowed);
      expect(group.takes.map(({ paid, remaining }) => [paid, remaining])).toEqual([
        [true, 7],
        [true, 7],
        [true, 17],
        [true, 7],
      ]);
    });

    test("pays none when one limit of the descriptor is over", async () => {
      const group = await ask(open(), [
        ...ALL.map(({ limit }) => ({ limit, descriptor: 0 })),
        { limit: full, descriptor: 0 },
      ]);
      expect(group.verdict).toBe(Verdict.refused);
      expect(group.takes.map(({ outcome, paid }) => [outcome, paid])).toEqual([
        [Outcome.room, false],
        [Outcome.room, false],
        [Outcome.room, false],
        [Outcome.room, false],
        [Outcome.never, false],
      ]);
      for (const { limit } of ALL) expect((await look(open(), limit)).resetUs).toBe(0);
    });

    test("the global limit refuses like an ordinary descriptor", async () => {
      await ask(open(), [{ limit: perHour, cost: 20 }]);
      const group = await ask(open(), [{ limit: bucket }, { limit: perHour, descriptor: GLOBAL_DESCRIPTOR }]);
      expect(group.verdict).toBe(Verdict.refused);
      expect((await look(open(), bucket)).remaining).toBe(10);
    });
  });
}

function describeBuckets(open: () => StoreHarness, limits: typeof ALL): void {
  describe("buckets of a group", () => {
    test.each(limits)("a $name named twice needs room for the sum", async ({ limit }) => {
      const cost = limit.amount / 2;
      const both = await ask(open(), [
        { limit, cost },
        { limit, cost },
      ]);
      expect(both.verdict).toBe(Verdict.allowed);
      expect(both.takes.map(({ remaining }) => remaining)).toEqual([0, 0]);
      const second = await ask(open(), [
        { limit, identity: "b", cost: cost + 1 },
        { limit, identity: "b", cost },
      ]);
      expect(second.verdict).toBe(Verdict.refused);
      expect(second.takes.map(({ outcome }) => outcome)).toEqual([Outcome.room, Outcome.over]);
      expect((await look(open(), limit, "b")).remaining).toBe(limit.amount);
    });

    // Promise(input): Two keys share a bucket only if they are equal byte by byte.
    test("bytes of any kind and number tell buckets apart", async () => {
      // Callers write keys of counters: also such as look like another key's escaped or hashed form.
      const texts = [
        "\xc3\xa9",
        "%c3%a9",
        "\\xc3\\xa9",
        "\\\\xc3",
        "\xc3",
        "\0",
        "%00",
        "\\x00",
        '"',
        "\\",
        "\\\\",
        "#",
      ];
      const long = "x".repeat(2_000);
      const identities = [...texts, ...texts.flatMap((text) => [`${long}${text}`, `${text}${long}`]), long, `${long}x`];
      const asks = identities.map((identity, index) => ({ limit: bucket, identity, cost: (index % 9) + 1 }));
      for (const one of asks) await ask(open(), [one]);
      const left = await Promise.all(asks.map(({ identity }) => look(open(), bucket, identity)));
      expect(left.map(({ remaining }) => remaining)).toEqual(asks.map(({ cost }) => 10 - cost));
    });

    test("settles a group of many takes", async () => {
      const asks = Array.from({ length: 60 }, (_, i) => ({ limit: bucket, identity: `user-${i % 40}`, cost: 5 }));
      const group = await ask(open(), asks);
      expect(group.verdict).toBe(Verdict.allowed);
      expect(group.takes.filter(({ remaining }) => remaining === 0)).toHaveLength(40);
      expect((await ask(open(), asks)).verdict).toBe(Verdict.refused);
      expect((await look(open(), bucket, "user-39")).remaining).toBe(5);
    });
  });
}

function describeKinds(open: () => StoreHarness): void {
  describe("kinds", () => {
    test("a shadow descriptor never refuses and pays only with room", async () => {
      const group = await ask(open(), [
        { limit: full, kind: Kind.shadow },
        { limit: bucket, kind: Kind.shadow, cost: 4 },
        { limit: perMinute, cost: 4 },
      ]);
      expect(group.verdict).toBe(Verdict.allowed);
      expect(group.takes.map(({ paid }) => paid)).toEqual([false, true, true]);
    });

    test("quota descriptors refuse only all together", async () => {
      const quotas = (cost: number) => [
        { limit: bucket, kind: Kind.quota, cost: 11 },
        { limit: perMinute, kind: Kind.quota, cost },
      ];
      const passing = await ask(open(), quotas(4));
      expect(passing.verdict).toBe(Verdict.allowed);
      expect(passing.takes.map(({ paid }) => paid)).toEqual([false, true]);
      expect((await ask(open(), quotas(99))).verdict).toBe(Verdict.refused);
    });

    test("a descriptor that is over leaves its bucket to the next one", async () => {
      const group = await ask(open(), [
        { limit: bucket, descriptor: 0, kind: Kind.shadow, cost: 8 },
        { limit: full, descriptor: 0, kind: Kind.shadow },
        { limit: bucket, descriptor: 1, cost: 8 },
      ]);
      expect(group.verdict).toBe(Verdict.allowed);
      expect(group.takes.map(({ paid }) => paid)).toEqual([false, false, true]);
    });
  });
}

function describeModes(open: () => StoreHarness, limits: typeof ALL): void {
  describe("modes", () => {
    test("a peek sees what the call's own takes have paid so far", async () => {
      const group = await ask(open(), [
        { limit: bucket, cost: 10 },
        { limit: bucket, mode: Mode.peek, kind: Kind.shadow },
      ]);
      expect(takeOf(group, 1)).toMatchObject({ outcome: Outcome.over, paid: false });
    });

    test.each(limits)("a refund reaches a $name although the call is refused", async ({ limit }) => {
      await ask(open(), [{ limit, cost: 4 }]);
      const group = await ask(open(), [{ limit, mode: Mode.refund, cost: 3 }, { limit: full }]);
      expect(group.verdict).toBe(Verdict.refused);
      expect(takeOf(group, 0)).toMatchObject({ outcome: Outcome.room, paid: true, remaining: limit.amount - 1 });
      expect((await look(open(), limit)).remaining).toBe(limit.amount - 1);
    });

    test("a refund helps no take of the same call", async () => {
      await ask(open(), [{ limit: bucket, cost: 10 }]);
      const group = await ask(open(), [
        { limit: bucket, mode: Mode.refund, cost: 5 },
        { limit: bucket, kind: Kind.shadow },
      ]);
      expect(takeOf(group, 1)).toMatchObject({ outcome: Outcome.over, remaining: 5 });
    });

    test.each(limits)("a refund of an unknown $name does nothing", async ({ limit }) => {
      const group = await ask(open(), [{ limit, mode: Mode.refund, cost: 3 }]);
      expect(group.verdict).toBe(Verdict.allowed);
      expect(takeOf(group, 0)).toMatchObject({ outcome: Outcome.room, remaining: limit.amount, resetUs: 0 });
    });

    test.each(limits)("keeps post-paid hits on a $name although the call is refused", async ({ limit }) => {
      const group = await ask(open(), [{ limit, mode: Mode.postPaid, cost: 25 }, { limit: full }]);
      expect(group.verdict).toBe(Verdict.refused);
      expect(takeOf(group, 0)).toMatchObject({ outcome: Outcome.room, paid: true, remaining: 0, cappedHits: 0 });
      expect((await look(open(), limit)).outcome).toBe(Outcome.over);
    });

    test.each(limits)("keeps post-paid hits on a $name although a payment before them is undone", async ({ limit }) => {
      await ask(open(), [{ limit, cost: 4 }, { limit, mode: Mode.postPaid, cost: 3 }, { limit: full }]);
      expect((await look(open(), limit)).remaining).toBe(limit.amount - 3);
    });
  });
}

function describeGivingBack(open: () => StoreHarness, limits: typeof ALL): void {
  describe("giving back", () => {
    test.each(limits)("undoes what a $name was paid", async ({ limit }) => {
      await ask(open(), [{ limit, cost: 2 }]);
      const group = await ask(open(), [{ limit, cost: 3 }]);
      await open().giveBack(group);
      expect((await look(open(), limit)).remaining).toBe(limit.amount - 2);
    });

    test("leaves peeks, refunds and what was not paid alone", async () => {
      await ask(open(), [{ limit: bucket, cost: 5 }]);
      const group = await ask(open(), [
        { limit: bucket, mode: Mode.peek },
        { limit: bucket, mode: Mode.refund, cost: 1 },
        { limit: bucket, kind: Kind.shadow, cost: 9 },
      ]);
      await open().giveBack(group);
      expect((await look(open(), bucket)).remaining).toBe(6);
    });

    test("gives back only the post-paid hits that were recorded", async () => {
      const limit = makeLimit({ algorithm: Algorithm.tokenBucket, windowSeconds: 60, debtMax: 20 });
      await ask(open(), [{ limit, cost: 15, mode: Mode.postPaid }]);
      const capped = await ask(open(), [{ limit, cost: 15, mode: Mode.postPaid }]);
      expect(takeOf(capped, 0).cappedHits).toBe(10);
      await open().giveBack(capped);
      expect((await look(open(), limit)).resetUs).toBe(90 * SECOND_US);
    });
  });
}

function describeReceipts(open: () => StoreHarness): void {
  describe("receipts", () => {
    test("a sliding window gives back to the window that was paid", async () => {
      const group = await ask(open(), [{ limit: perMinute, cost: 4 }]);
      advance(open(), 60 * SECOND_US);
      await ask(open(), [{ limit: perMinute, cost: 4 }]);
      await open().giveBack(group);
      expect(await look(open(), perMinute)).toMatchObject({ remaining: 6, resetUs: 120 * SECOND_US });
    });

    test("a sliding log gives back the payment of that time", async () => {
      const group = await ask(open(), [{ limit: log, cost: 4 }]);
      advance(open(), 10 * SECOND_US);
      await ask(open(), [{ limit: log, cost: 5 }]);
      await open().giveBack(group);
      expect((await look(open(), log)).remaining).toBe(5);
      advance(open(), 50 * SECOND_US);
      expect((await look(open(), log)).remaining).toBe(5);
    });
  });
}
