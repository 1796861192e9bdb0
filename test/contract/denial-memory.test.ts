// The denial memory in front of a store keeps the contract of stores: nobody notices that it is there.

import type { TakeGroup } from "../../src/engine/domain/take.ts";
import { DenialMemory } from "../../src/stores/denials/denial-memory.ts";
import { describeAlgorithmContract } from "./algorithm.contract.ts";
import { memoryHarness } from "./memory-harness.ts";
import { describeStoreContract } from "./store.contract.ts";
import type { StoreHarness } from "./store-harness.ts";

function denialHarness(): StoreHarness {
  const memory = memoryHarness();
  const store = new DenialMemory(memory.store, { clock: memory, entriesMax: 1_000 });
  return {
    ...memory,
    store,
    settle: async (group: TakeGroup) => {
      store.take(group, { settled: () => undefined });
    },
    giveBack: async (group: TakeGroup) => store.giveBack(group),
  };
}

describeStoreContract("denial memory", denialHarness);
describeAlgorithmContract("denial memory", denialHarness);
