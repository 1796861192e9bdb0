// Settles calls whose buckets lie at several shards: the nodes of a cluster, or two stores. No shard can settle such a call
// alone. Each shard settles its part of the call as a group of its own, all at the same time. If the call is refused, what
// the parts paid is given back by receipt (sharded-call.ts).

import type { Take, TakeGroup } from "../../core/take.ts";
import type { SettleListener } from "../store.ts";
import { ShardedCall } from "./sharded-call.ts";
import { giveBackAtShards, type Shards } from "./shards.ts";

/**
 * Settles calls over shards. Never grants more than one store that kept all the buckets would, and refuses for the same
 * reasons; but while a call is under way, one that will be refused holds what its parts paid, so that another call at
 * that moment may find less (test/property/sharded-calls.test.ts). A call with all its buckets at one shard is that shard's alone.
 *
 * A shard that gives no answer leaves its own takes unanswered. What the others say stands, and what they were paid.
 */
export class ShardedCalls {
  readonly #shards: Shards;
  readonly #idle: ShardedCall[] = [];

  constructor(shards: Shards) {
    this.#shards = shards;
  }

  /** As Store.take. */
  take(group: TakeGroup, then: SettleListener): boolean {
    const first = group.takes[0];
    if (first === undefined || group.size === 0) return this.#shards.takeAt(0, group, then);
    const shard = this.#shards.shardOf(first);
    if (this.#isAllAt(shard, group)) return this.#shards.takeAt(shard, group, then);
    return this.#idleCall().begin(group, then, group.deadlineUs);
  }

  /** As `take`, but even a call with all its buckets at one shard goes as parts, and all parts are answered by `deadlineUs`. */
  takeBy(deadlineUs: number, group: TakeGroup, then: SettleListener): boolean {
    return this.#idleCall().begin(group, then, Math.min(group.deadlineUs, deadlineUs));
  }

  /** As Store.giveBack. */
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
