// A store around another keeps the contract of stores for limits that could be leased, as long as nothing is. With leases, answers differ within
// their bounds (test/property/lease.test.ts).

import { type Limit, Sync } from "../../src/engine/domain/limit.ts";
import type { Take, TakeGroup } from "../../src/engine/domain/take.ts";
import { Leases } from "../../src/stores/sync/lease.ts";
import { SyncStore } from "../../src/stores/sync/sync-store.ts";
import { closedWithTest } from "../support/ends.ts";
import { memoryHarness } from "./memory-harness.ts";
import { describeStoreContract } from "./store.contract.ts";
import type { StoreHarness } from "./store-harness.ts";

function syncHarness(): StoreHarness {
  const behind = memoryHarness();
  const leases = new Leases(behind.store, () => Number.POSITIVE_INFINITY, behind);
  const store = closedWithTest(new SyncStore(behind.store, leases, behind));
  const leased = new WeakMap<Limit, Limit>();
  const leasedOf = (limit: Limit) => {
    const kept = leased.get(limit) ?? { ...limit, policy: { ...limit.policy, sync: Sync.lease } };
    leased.set(limit, kept);
    return kept;
  };
  // The takes ask for limits that may be leased, and show their own again when they are settled.
  const withLeased = (group: TakeGroup, act: () => void) => {
    const own = group.takes.map(({ limit }) => limit);
    for (const take of group.takes) take.limit = leasedOf(take.limit);
    act();
    for (const [i, limit] of own.entries()) (group.takes[i] as Take).limit = limit;
  };
  return {
    ...behind,
    store,
    settle: async (group) => withLeased(group, () => store.take(group, { answered: () => undefined })),
    giveBack: async (group) => withLeased(group, () => store.giveBack(group)),
  };
}

describeStoreContract("limits that could be leased", syncHarness);
