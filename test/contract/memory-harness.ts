// The memory store under a clock moved by hand, as one thread has it, and as three threads do that take in turn.

import type { TakeGroup } from "../../src/engine/domain/take.ts";
import { MemoryStore, type MemoryStoreOptions } from "../../src/stores/memory/memory-store.ts";
import { newSharedStore } from "../../src/stores/memory/store-memory.ts";
import type { Store } from "../../src/stores/store.ts";
import { closedWithTest } from "../support/ends.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { START_US, type StoreHarness } from "./store-harness.ts";

/** Every call goes to the next thread's store, so what one has opened, another settles or gives back. */
class StoreInTurns implements Store {
  readonly #stores: readonly MemoryStore[];
  #calls = 0;

  constructor(stores: readonly MemoryStore[]) {
    this.#stores = stores;
  }

  take(group: TakeGroup): boolean {
    return this.#next().take(group);
  }

  giveBack(group: TakeGroup): void {
    this.#next().giveBack(group);
  }

  async close(): Promise<void> {
    await Promise.all(this.#stores.map((store) => store.close()));
  }

  #next(): MemoryStore {
    return this.#stores[this.#calls++ % this.#stores.length] as MemoryStore;
  }
}

/** A fresh memory store that so many threads share. */
export function memoryHarness(threads = 1, bounds: Omit<MemoryStoreOptions, "clock"> = {}): StoreHarness {
  const clock = new ManualClock(START_US);
  const shared = newSharedStore({ ...bounds, threadsMax: threads });
  const stores = Array.from(
    { length: threads },
    (_, i) => new MemoryStore({ clock, shared: { store: shared, thread: i + 1 } }),
  );
  const store = closedWithTest(new StoreInTurns(stores));
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
