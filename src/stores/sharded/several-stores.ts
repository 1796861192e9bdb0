// Several stores that look like one: each limit is kept in one of them. A call that needs more than one is settled by
// sharded-calls.ts, all or nothing. For a second Redis of limits per second.

import type { Take, TakeGroup } from "../../core/take.ts";
import type { SettleListener, Store } from "../store.ts";
import { ShardedCalls } from "./sharded-calls.ts";

/** Keeps each limit in the store of the list that `shardOf` names. */
export class SeveralStores implements Store {
  readonly #stores: readonly [Store, ...Store[]];
  readonly #parts: ShardedCalls;

  /** `onUndone` as Shards says. */
  constructor(
    stores: readonly [Store, ...Store[]],
    shardOf: (take: Take) => number,
    onUndone: (take: Take) => void = () => undefined,
  ) {
    this.#stores = stores;
    const storeAt = (shard: number) => stores[shard] ?? stores[0];
    this.#parts = new ShardedCalls({
      shardOf,
      takeAt: (shard, group, then) => storeAt(shard).take(group, then),
      giveBackAt: (shard, group) => storeAt(shard).giveBack(group),
      onUndone,
    });
  }

  take(group: TakeGroup, then: SettleListener): boolean {
    return this.#parts.take(group, then);
  }

  giveBack(group: TakeGroup): void {
    this.#parts.giveBack(group);
  }

  async close(): Promise<void> {
    await Promise.all(this.#stores.map((store) => store.close()));
  }
}
