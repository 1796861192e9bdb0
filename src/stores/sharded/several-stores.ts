// Several stores as one: each limit is kept in one of them. sharded-calls.ts settles calls that need more than one, all or nothing. Used for
// a second Redis with the limits per second.

import type { Take, TakeGroup } from "../../engine/domain/take.ts";
import type { SettleListener, Store } from "../store.ts";
import { ShardedCalls } from "./sharded-calls.ts";

/** Keeps each limit in the store with the index that `shardOf` returns. */
export class SeveralStores implements Store {
  readonly #stores: readonly [Store, ...Store[]];
  readonly #parts: ShardedCalls;

  /** `onUndone`: see Shards. */
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
