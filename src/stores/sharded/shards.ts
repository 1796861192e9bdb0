// The servers or stores that keep buckets, as sharded-calls.ts uses them.

import { copyAnswer, copyQuestion, type Take, TakeGroup } from "../../engine/domain/take.ts";
import type { SettleListener } from "../store.ts";

/** Servers or stores, each of which keeps a part of all buckets. A shard settles all takes of a group as one. */
export interface Shards {
  /** Number of the shard with the take's bucket. */
  shardOf(take: Take): number;
  /** Like Store.take, for a group with all its buckets at this shard. */
  takeAt(shard: number, group: TakeGroup, then: SettleListener): boolean;
  /** Like Store.giveBack, for a group with all its buckets at this shard. Must not keep the group. */
  giveBackAt(shard: number, group: TakeGroup): void;
  /** Told of each take that was paid and is given back, because another part of its call refused or its caller has gone. */
  onUndone?(take: Take): void;
}

/** Like Store.giveBack, for a group with buckets at any shards. */
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
