// Settles calls whose buckets lie at several shards: nodes of a cluster, or two stores. No shard can settle such a call alone, so each shard
// settles its part as a group of its own, all at the same time. If the call is refused, the payments of its parts are given back by receipt
// (sharded-call.ts).

import type { Take, TakeGroup } from "../../engine/domain/take.ts";
import type { SettleListener, Store } from "../store.ts";
import { giveBackAtShards, ShardedCall, type Shards } from "./sharded-call.ts";

/**
 * Settles calls over shards. It never grants more than one store with all the buckets would, and refuses for the same reasons. But while a
 * call is under way that will be refused, its parts hold what they have paid, so another call may find less at that moment
 * (test/property/sharded-calls.test.ts). A call with all its buckets at one shard is passed to that shard unchanged.
 *
 * If a shard gives no answer, only its own takes stay unanswered. The answers and payments of other shards remain valid.
 */
export class ShardedCalls {
  readonly #shards: Shards;
  readonly #idle: ShardedCall[] = [];

  constructor(shards: Shards) {
    this.#shards = shards;
  }

  /** Settles a group like Store.take. */
  take(group: TakeGroup, then: SettleListener): boolean {
    const first = group.takes[0];
    if (first === undefined || group.size === 0) return this.#shards.takeAt(0, group, then);
    const shard = this.#shards.shardOf(first);
    if (this.#isAllAt(shard, group)) return this.#shards.takeAt(shard, group, then);
    return this.#idleCall().begin(group, then, group.deadlineUs);
  }

  /** Like `take`, but splits even a call with all its buckets at one shard, and all parts are answered by `deadlineUs`. */
  takeBy(deadlineUs: number, group: TakeGroup, then: SettleListener): boolean {
    return this.#idleCall().begin(group, then, Math.min(group.deadlineUs, deadlineUs));
  }

  /** Gives a group's payments back like Store.giveBack. */
  giveBack(group: TakeGroup): void {
    giveBackAtShards(this.#shards, group);
  }

  #idleCall(): ShardedCall {
    return this.#idle.pop() ?? new ShardedCall(this.#shards, (done) => this.#idle.push(done));
  }

  #isAllAt(shard: number, group: TakeGroup): boolean {
    for (let i = 1; i < group.size; i++) {
      if (this.#shards.shardOf(group.takes[i] as Take) !== shard) return false;
    }
    return true;
  }
}

/**
 * Several stores as one: each limit is kept in the store with the index that `shardOf` returns. Used for a second Redis with the limits per
 * second.
 */
export class SeveralStores extends ShardedCalls implements Store {
  readonly #stores: readonly [Store, ...Store[]];

  constructor(
    stores: readonly [Store, ...Store[]],
    shardOf: Shards["shardOf"],
    onUndone: NonNullable<Shards["onUndone"]> = () => undefined,
  ) {
    const storeAt = (shard: number) => stores[shard] ?? stores[0];
    super({
      shardOf,
      takeAt: (shard, group, then) => storeAt(shard).take(group, then),
      giveBackAt: (shard, group) => storeAt(shard).giveBack(group),
      onUndone,
    });
    this.#stores = stores;
  }

  async close(): Promise<void> {
    await Promise.all(this.#stores.map((store) => store.close()));
  }
}
