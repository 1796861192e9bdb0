// The memory store under a clock moved by hand.

import type { TakeGroup } from "../../src/engine/domain/take.ts";
import { MemoryStore } from "../../src/stores/memory/memory-store.ts";
import { closedWithTest } from "../support/ends.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { START_US, type StoreHarness } from "./store-harness.ts";

/** A fresh memory store. */
export function memoryHarness(): StoreHarness {
  const clock = new ManualClock(START_US);
  const store = closedWithTest(new MemoryStore({ clock }));
  return {
    store,
    keyPrefix: "",
    nowUs: () => clock.nowUs(),
    setUs: (nowUs) => clock.setUs(nowUs),
    settle: async (group: TakeGroup) => {
      store.take(group);
    },
    giveBack: async (group: TakeGroup) => store.giveBack(group),
  };
}
