// A store that counts some limits in memory keeps the contract of stores, as long as the process is alone: then a share
// is the whole limit. Of leases and periodic exchange the answers differ within their bounds (test/property).

import { Algorithm, type Limit, Sync } from "../../src/engine/domain/limit.ts";
import { Source, type Take, type TakeGroup } from "../../src/engine/domain/take.ts";
import { Share } from "../../src/stores/sync/share.ts";
import { SyncStore } from "../../src/stores/sync/sync-store.ts";
import { closedWithTest } from "../support/ends.ts";
import { memoryHarness } from "./memory-harness.ts";
import { describeStoreContract } from "./store.contract.ts";
import type { StoreHarness } from "./store-harness.ts";

/** `isShared` says of which limits the process counts its share in memory; the others go to a store behind. */
function syncHarness(isShared: (limit: Limit) => boolean): StoreHarness {
  const behind = memoryHarness();
  const beside = memoryHarness();
  const share = new Share({ memory: beside.store, processCount: () => 1, processIndex: () => 0 });
  const store = closedWithTest(new SyncStore(behind.store, { clock: behind, share }));
  const shared = new WeakMap<Limit, Limit>();
  const sharedOf = (limit: Limit) => {
    const kept = shared.get(limit) ?? { ...limit, policy: { ...limit.policy, sync: Sync.share } };
    shared.set(limit, kept);
    return kept;
  };
  // The takes ask for limits that are shared, and show their own again when they are settled.
  const withShared = (group: TakeGroup, act: () => void) => {
    const own = group.takes.map(({ limit }) => limit);
    for (const take of group.takes) if (isShared(take.limit)) take.limit = sharedOf(take.limit);
    act();
    for (const [i, limit] of own.entries()) (group.takes[i] as Take).limit = limit;
  };
  return {
    ...behind,
    store,
    setUs: (nowUs) => {
      behind.setUs(nowUs);
      beside.setUs(nowUs);
    },
    settle: async (group) => {
      withShared(group, () => store.take(group, { settled: () => undefined }));
      // Where an answer came from is all that may differ.
      group.source = Source.store;
    },
    giveBack: async (group) => withShared(group, () => store.giveBack(group)),
  };
}

describeStoreContract("share of the only process", () => syncHarness(() => true));
describeStoreContract("windows in memory beside buckets and logs at the store", () =>
  syncHarness(({ algorithm }) => algorithm === Algorithm.fixedWindow || algorithm === Algorithm.slidingWindow),
);
