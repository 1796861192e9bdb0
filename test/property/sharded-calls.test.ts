// A call over several shards is settled as by one store with all the buckets, never grants more, and leaves nothing behind
// when it is refused or fails.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { StoreError } from "../../src/base/errors.ts";
import { hashBucketKey } from "../../src/engine/domain/key-bytes.ts";
import { Algorithm } from "../../src/engine/domain/limit.ts";
import type { Store, TakeListener } from "../../src/engine/domain/store.ts";
import { Mode, type Take, type TakeGroup, Verdict } from "../../src/engine/domain/take.ts";
import { DenialMemory } from "../../src/stores/denials/denial-memory.ts";
import { SeveralStores, ShardedCalls } from "../../src/stores/sharded/sharded-calls.ts";
import { type Ask, groupOf, START_US } from "../contract/store-harness.ts";
import { makeLimit } from "../support/builders.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { runs } from "../support/runs.ts";
import { ScriptedStore } from "../support/scripted-store.ts";
import { type History, limitOf } from "./histories.ts";
import { gistsOf, historiesOnShards, TAKES_MAX } from "./histories-on-shards.ts";
import { ReferenceStore } from "./reference-store.ts";
import { answerOf, type GroupAnswer, MUST_ANSWER_AT_ONCE, replayAtOnce } from "./replay.ts";

const SHARDS = 3;
/** All buckets of an identity lie in one shard. */
function shardOf(take: Pick<Take, "bucketKey">): number {
  return Number(/id=(\d+)/.exec(take.bucketKey)?.[1] ?? 0) % SHARDS;
}

function overShards<S extends Store>(open: () => S): { readonly store: SeveralStores; readonly shards: readonly S[] } {
  const shards: [S, ...S[]] = [open(), ...Array.from({ length: SHARDS - 1 }, open)];
  return { store: new SeveralStores(shards, shardOf), shards };
}

/** Where all buckets of a history stand after it. */
function standings(history: History, store: Store): GroupAnswer[] {
  return history.limits.flatMap((numbers) =>
    ["0", "1", "2", "3"].map((identity) => {
      const group = groupOf([{ limit: limitOf(numbers), identity, mode: Mode.peek }], "");
      store.take(group, MUST_ANSWER_AT_ONCE);
      return answerOf(group);
    }),
  );
}

// Promise(calls): A call over several shards or Cluster slots is settled as on one store, whatever the order of answers.
test("calls one after another are answered as by one store, and leave the same in the buckets", () => {
  fc.assert(
    fc.property(historiesOnShards(SHARDS + 1), (history) => {
      const clock = new ManualClock();
      const one = new ReferenceStore(clock);
      const several = overShards(() => new ReferenceStore(clock)).store;
      const expected = replayAtOnce(one, clock, history);
      const stands = standings(history, one);
      expect(gistsOf(history, replayAtOnce(several, clock, history))).toEqual(gistsOf(history, expected));
      expect(standings(history, several)).toEqual(stands);
    }),
    { numRuns: runs(150) },
  );
});

/** A shard whose buckets lie apart just now, as those of a hash slot that moves. */
function apart(store: ReferenceStore): Store {
  const giveBack = (group: TakeGroup) => store.giveBack(group);
  const calls = new ShardedCalls({
    shardOf: ({ bucketKey }) => hashBucketKey(bucketKey),
    takeAt: (_, group) => store.take(group),
    giveBackAt: (_, group) => giveBack(group),
  });
  const take = (group: TakeGroup, then: TakeListener) => calls.takeBy(Number.POSITIVE_INFINITY, group, then);
  return { take, giveBack } as Store;
}

test("a shard whose own buckets lie apart changes nothing", () => {
  fc.assert(
    // Each descriptor on buckets of its own: where one is over at one place, its payments at another are given back only once all
    // have answered, and a second descriptor on the same bucket was judged with them still in it.
    fc.property(historiesOnShards(TAKES_MAX), (history) => {
      const clock = new ManualClock();
      const one = new ReferenceStore(clock);
      const { store } = overShards(() => apart(new ReferenceStore(clock)));
      const expected = replayAtOnce(one, clock, history);
      const stands = standings(history, one);
      expect(gistsOf(history, replayAtOnce(store, clock, history))).toEqual(gistsOf(history, expected));
      expect(standings(history, store)).toEqual(stands);
    }),
    { numRuns: runs(150) },
  );
});

const bucket = makeLimit({ algorithm: Algorithm.tokenBucket, amount: 10, burst: 10, windowSeconds: 60 });

const full = makeLimit({ algorithm: Algorithm.fixedWindow, amount: 0, windowSeconds: 60 });

/** Two shards whose answers a test decides; identities 0 and 1 lie in the one and the other. */
function twoShards() {
  const clock = new ManualClock(START_US);
  const shards: [ScriptedStore, ScriptedStore] = [new ScriptedStore(clock), new ScriptedStore(clock)];
  const store = new SeveralStores(shards, (take) => shardOf(take) % 2);
  const ask = (asks: readonly Ask[], hasSpareQuota = false): TakeGroup => {
    const group = groupOf(asks, "", hasSpareQuota);
    store.take(group, MUST_ANSWER_AT_ONCE);
    return group;
  };
  const left = (identity: string) => ask([{ limit: bucket, identity, mode: Mode.peek }]).takes[0]?.remaining;
  return { shards, store, ask, left };
}

const down = new StoreError("STORE_UNREACHABLE", "away");

describe("when a shard fails", () => {
  test("the call fails as unknown if any shard may have counted its part", () => {
    const { shards, ask } = twoShards();
    const unknown = new StoreError("STORE_TIMEOUT", "no reply", undefined, true);
    for (const [first, second] of [
      [down, unknown],
      [unknown, down],
    ] as const) {
      shards[0].failure = first;
      shards[1].failure = second;
      expect(
        ask([
          { limit: bucket, identity: "0" },
          { limit: bucket, identity: "1" },
        ]).failure,
      ).toBe(unknown);
    }
  });

  test("refunds at the other shards are kept", () => {
    const { shards, ask, left } = twoShards();
    ask([{ limit: bucket, identity: "0", cost: 6 }]);
    shards[1].failure = down;
    ask([
      { limit: bucket, identity: "0", cost: 4, mode: Mode.refund },
      { limit: bucket, identity: "1" },
    ]);
    expect(left("0")).toBe(8);
  });
});

test("a refusal for what another call held for a moment is not remembered", () => {
  const clock = new ManualClock(START_US);
  const shards: [ScriptedStore, ScriptedStore] = [new ScriptedStore(clock), new ScriptedStore(clock)];
  const several = new SeveralStores(
    shards,
    (take) => shardOf(take) % 2,
    (take) => memory.forgetRefusal(take),
  );
  const memory = new DenialMemory(several, { clock, entriesMax: 100 });
  shards[1].holdsBack = true;
  const holding = groupOf(
    [
      { limit: bucket, identity: "0", cost: 10 },
      { limit: full, identity: "1" },
    ],
    "",
  );
  expect(memory.take(holding, { answered: () => undefined })).toBe(false);
  const askFor = () => {
    const group = groupOf([{ limit: bucket, identity: "0" }], "");
    memory.take(group, MUST_ANSWER_AT_ONCE);
    return group.verdict;
  };
  expect(askFor()).toBe(Verdict.refused);
  shards[1].release();
  expect(holding.verdict).toBe(Verdict.refused);
  expect(askFor()).toBe(Verdict.allowed);
});
