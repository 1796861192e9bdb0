// What suites of ways to a server share: whether a store can use it, and what it says if it can't.

import { Verdict } from "../../src/engine/domain/take.ts";
import type { SharedStore } from "../../src/stores/batching/shared-store.ts";
import { closedWithTest } from "../support/ends.ts";
import { whenUp } from "../support/when-up.ts";
import { groupOn, settle, until } from "./store-rig.ts";

/** What the store says once its first attempt to connect has ended. */
export async function troubleOf(store: SharedStore): Promise<string> {
  closedWithTest(store);
  await until("the first attempt has ended", () => store.trouble()?.includes("not connected yet") === false);
  return store.trouble() ?? "nothing";
}

/** Whether it pays once it is up. */
export async function works(store: SharedStore): Promise<boolean> {
  closedWithTest(store);
  if (!(await whenUp(store, 20_000))) throw new Error(store.trouble());
  return (await settle(store, groupOn("k"))).verdict === Verdict.allowed;
}
