// The store on a real Redis Cluster keeps the contract of stores, and answers as the TypeScript does: field by field while all buckets
// of a call lie in one slot, and in all that parts can know when they lie in several.

import fc from "fast-check";
import { beforeAll, expect, test } from "vitest";
import { Algorithm } from "../../src/engine/domain/limit.ts";
import { Kind, Mode } from "../../src/engine/domain/take.ts";
import { clusterHarness } from "../contract/redis-harness.ts";
import { describeStoreContract, ONE_LIMIT } from "../contract/store.contract.ts";
import type { StoreHarness } from "../contract/store-harness.ts";
import { ClusterRig } from "../support/redis-cluster.ts";
import { runs } from "../support/runs.ts";
import { expectEqualInFours, HOLDS, MIXED } from "./agreement.ts";
import type { History } from "./histories.ts";
import { gistsOf, historiesOnShards, TAKES_MAX } from "./histories-on-shards.ts";
import { type ReplayTarget, replayHistory, replayOnReference } from "./replay.ts";

const IDENTITIES = 4;

let rig: ClusterRig;
let harness: StoreHarness;
beforeAll(async () => {
  rig = await ClusterRig.start({ replicas: false });
  harness = await clusterHarness(rig);
}, 60_000);

// Each node runs the scripts of one Redis, which keeps the other contracts, and which lua-agrees.server.test.ts compares over all histories.
describeStoreContract("cluster store", () => clusterHarness(rig), ONE_LIMIT);

test("calls of one slot that travel together are answered as in memory, holds among them", async () => {
  let replays = 0;
  // The first braces of a key are its hash tag: all keys of a replay are of one slot.
  const prefixOf = () => `{h${replays++}}:`;
  const held = { ...HOLDS, limitsMax: 3, takesMax: 3, identities: 2, sharesBuckets: false };
  for (const shape of [MIXED, held]) await expectEqualInFours(() => harness, shape, undefined, prefixOf);
});

const take = { kind: Kind.ordinary, mode: Mode.pay, cost: 1 };
const step = { hasSpareQuota: false, isGivenBack: false };

/** A refused call has two payments to give back at one node, by two tags; a microsecond later the second bucket is paid. */
const FOUND: History = {
  startUs: 1_767_225_687_482_292,
  limits: [
    { algorithm: Algorithm.tokenBucket, amount: 3, burst: 9, windowSeconds: 4_105_191, debtMax: 9 },
    { algorithm: Algorithm.slidingWindow, amount: 4, burst: 4, windowSeconds: 60, debtMax: 16 },
    { algorithm: Algorithm.calendarWindow, amount: 3, burst: 3, windowSeconds: 31_536_000, debtMax: 30 },
  ],
  steps: [
    {
      ...step,
      advanceUs: 0,
      takes: [
        { ...take, limit: 2, identity: "0", descriptor: 0 },
        { ...take, limit: 0, identity: "1", descriptor: 1 },
        { ...take, limit: 1, identity: "2", descriptor: 2, cost: 5 },
      ],
    },
    { ...step, advanceUs: 1, takes: [{ ...take, limit: 0, identity: "1", descriptor: 0 }] },
  ],
};

// Promise(calls): A call over several shards or Cluster slots is settled as on one store, whatever the order of answers.
test("calls over several slots are answered as by one server", async () => {
  let replays = 0;
  await fc.assert(
    fc.asyncProperty(historiesOnShards(IDENTITIES), async (history) => {
      const answers = await replayHistory(givingBackAtOnce(harness), history, `s${replays++}:`);
      expect(gistsOf(history, answers)).toEqual(gistsOf(history, replayOnReference(history)));
    }),
    { numRuns: runs(100), examples: [[FOUND]] },
  );
});

/**
 * What a refused call paid in some slots is given back in the same moment: what returned in between would not be, which
 * one server never owes. A node gets what one tag has to give back in each turn.
 */
function givingBackAtOnce(target: ReplayTarget): ReplayTarget {
  return {
    setUs: (nowUs) => target.setUs(nowUs),
    giveBack: (group) => target.giveBack(group),
    settle: async (group) => {
      await target.settle(group);
      for (let turn = 0; turn < TAKES_MAX; turn++) await new Promise(setImmediate);
    },
  };
}
