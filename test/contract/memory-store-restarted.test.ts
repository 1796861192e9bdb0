// What a memory store promises holds also for one that is written down and read again before every take.

import type { TakeGroup } from "../../src/engine/domain/take.ts";
import { MemoryStore } from "../../src/stores/memory/memory-store.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { restore, snapshotOf } from "../support/snapshot-bytes.ts";
import { describeAlgorithmContract } from "./algorithm.contract.ts";
import { describeCounterContract } from "./counter.contract.ts";
import { describeStoreContract } from "./store.contract.ts";
import { START_US, type StoreHarness } from "./store-harness.ts";

/** Before so many takes each, then before every fiftieth: a test with thousands would take seconds. */
const RESTARTS_MIN = 20;

function restartingHarness(): StoreHarness {
  const clock = new ManualClock(START_US);
  const store = new MemoryStore({ clock });
  let acts = 0;
  // One after another, as a store settles: calls of one turn are asked for together.
  let last = Promise.resolve();
  const restarted = (act: () => void) => {
    last = last.then(async () => {
      if (acts++ < RESTARTS_MIN || acts % 50 === 0)
        await restore(store, snapshotOf(store, clock.nowUs()), clock.nowUs());
      act();
    });
    return last;
  };
  return {
    store,
    keyPrefix: "",
    nowUs: () => clock.nowUs(),
    setUs: (nowUs) => clock.setUs(nowUs),
    settle: (group: TakeGroup) => restarted(() => store.take(group)),
    giveBack: (group: TakeGroup) => restarted(() => store.giveBack(group)),
    close: () => store.close(),
  };
}

describeStoreContract("memory store that is restarted", restartingHarness);
describeAlgorithmContract("memory store that is restarted", restartingHarness);
describeCounterContract("memory store that is restarted", restartingHarness);
