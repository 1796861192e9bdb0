// The store on a real Redis Cluster answers as the TypeScript does: step by step and field by field while all buckets of a
// call lie in one slot, and in all that parts can know when they lie in several.

import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { clusterHarness } from "../contract/redis-harness.ts";
import type { StoreHarness } from "../contract/store-harness.ts";
import { ClusterRig } from "../support/redis-cluster.ts";
import { runs } from "../support/runs.ts";
import { describeAgreement } from "./agreement.ts";
import { gistsOf, historiesOnShards } from "./histories-on-shards.ts";
import { type ReplayTarget, replayHistory, replayOnReference } from "./replay.ts";

const IDENTITIES = 4;

let rig: ClusterRig;
let harness: StoreHarness;
beforeAll(async () => {
  rig = await ClusterRig.start({ replicas: false });
  harness = await clusterHarness(rig);
}, 60_000);
afterAll(async () => {
  await harness.close();
  await rig.stop();
});

// The first braces of a key are its hash tag: all keys of a replay are of one slot.
describeAgreement(() => harness, { namePrefix: (replay) => `{h${replay}}:` });

test("calls over several slots are answered as by one server", async () => {
  let replays = 0;
  await fc.assert(
    fc.asyncProperty(historiesOnShards(IDENTITIES), async (history) => {
      const answers = await replayHistory(givingBackAtOnce(harness), history, `s${replays++}:`);
      expect(gistsOf(history, answers)).toEqual(gistsOf(history, replayOnReference(history)));
    }),
    { numRuns: runs(100) },
  );
});

/**
 * What a refused call paid in some slots is given back in the same moment: what returned in between would not be, which
 * one server never owes.
 */
function givingBackAtOnce(target: ReplayTarget): ReplayTarget {
  return {
    setUs: (nowUs) => target.setUs(nowUs),
    giveBack: (group) => target.giveBack(group),
    settle: async (group) => {
      await target.settle(group);
      await new Promise(setImmediate);
    },
  };
}
