// What sharded-calls.ts asks of the servers or stores that keep buckets.

import { copyAnswer, copyQuestion, type Take, TakeGroup } from "../../core/take.ts";
import type { SettleListener } from "../store.ts";

/** Servers or stores that keep a part of all buckets each. A shard settles all takes of one group as one. */
export interface Shards {
  /** Number of the shard that keeps the take's bucket. */
  shardOf(take: Take): number;
  /** As Store.take, for a group whose buckets are all kept there. */
  takeAt(shard: number, group: TakeGroup, then: SettleListener): boolean;
  /** As Store.giveBack, for a group whose buckets are all kept there. Keeps nothing of the group. */
  giveBackAt(shard: number, group: TakeGroup): void;
  /** Hears of each take of a call that was paid and is given back, because another part refused or nobody heard of it. */
  onUndone?(take: Take): void;
}

/** As Store.giveBack, for a group whose buckets may be kept anywhere. */
export function giveBackAtShards(shards: Shards, group: TakeGroup): void {
  const parts = new Map<number, TakeGroup>();
  for (let i = 0; i < group.size; i++) {
    const take = group.takes[i] as Take;
    if (!take.paid) continue;
    const shard = shards.shardOf(take);
    let part = parts.get(shard);
    if (part === undefined) {
      part = new TakeGroup();
      parts.set(shard, part);
    }
    copyAnswer(take, copyQuestion(take, part));
  }
  for (const [shard, part] of parts) shards.giveBackAt(shard, part);
}
