// Waits for a shared store that connects by itself.

import { setTimeout as sleep } from "node:timers/promises";
import type { StoreHealth } from "../../src/engine/domain/store.ts";

/** Resolves true once the store answers, false if that takes longer than `ms`. */
export async function whenUp(store: StoreHealth, ms: number): Promise<boolean> {
  const endMs = performance.now() + ms;
  while (store.trouble() !== undefined) {
    if (performance.now() > endMs) return false;
    await sleep(2);
  }
  return true;
}
