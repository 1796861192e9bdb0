// Which hash tag the buckets of a Redis Cluster get. Tags are few, so that takes of many descriptors are of one hash slot and
// travel in one script call (docs/decisions/0016-few-hash-tags.md). The key under which a bucket is kept has the tag behind its
// prefix: rules and other stores know nothing of it. Counters of COMPATIBILITY_MODE keep the reference's keys, without a tag.

import { hashBucketKey } from "../../core/key-hash.ts";
import type { Take } from "../../core/take.ts";
import { keySlot, SLOTS } from "./key-slot.ts";

/** REDIS_CLUSTER_TAGS, unless it says otherwise: serves three or four primaries well, up to eight. */
const TAGS_DEFAULT = 16;
export const TAGS_MAX = 4_096;

/** Lanes from here on are of one bucket each, which may travel with no other. */
const ALONE = 2 ** 32;

/**
 * The tags of a cluster. A lane is a number for what may travel together: a hash slot, for counters; SLOTS and the number of a
 * tag; or one bucket alone, while its slot moves.
 */
export class ClusterTags {
  readonly count: number;
  readonly #keyPrefix: string;
  readonly #tags: readonly string[];

  /** `keyPrefix` begins every bucket key. */
  constructor(count = TAGS_DEFAULT, keyPrefix = "") {
    this.count = count;
    this.#keyPrefix = keyPrefix;
    this.#tags = tagsOf(count);
  }

  /**
   * The lane of a take's bucket. The slot that the key would have by itself decides on the tag, so limits of one descriptor
   * have one; and the tag's own slot is one of the SLOTS / count around it.
   */
  laneOf({ bucketKey, limit }: Pick<Take, "bucketKey" | "limit">): number {
    const slot = keySlot(bucketKey);
    return limit.isCounter ? slot : SLOTS + Math.floor((slot * this.count) / SLOTS);
  }

  /** A lane of the bucket's own, of the same slot. */
  laneAlone(take: Pick<Take, "bucketKey" | "limit">): number {
    return (this.laneOf(take) + 1) * ALONE + hashBucketKey(take.bucketKey);
  }

  /** The hash slot of all keys of a lane. */
  slotOf(lane: number): number {
    const shared = sharedLane(lane);
    return shared < SLOTS ? shared : slotOfTag(shared - SLOTS, this.count);
  }

  /** What a bucket of the lane is kept under. */
  storedKey(bucketKey: string, lane: number): string {
    const tag = this.#tags[sharedLane(lane) - SLOTS];
    if (tag === undefined) return bucketKey;
    const prefix = bucketKey.startsWith(this.#keyPrefix) ? this.#keyPrefix : "";
    return `${prefix}{${tag}}${bucketKey.slice(prefix.length)}`;
  }
}

/** The lane without what makes it a single bucket's. */
function sharedLane(lane: number): number {
  return lane < ALONE ? lane : Math.floor(lane / ALONE) - 1;
}

/** In the middle of the slots whose keys get that tag. */
function slotOfTag(index: number, count: number): number {
  return Math.floor(((index + 0.5) * SLOTS) / count);
}

/** The first short texts whose slots are those of the tags; found by trying, some hundred thousand in a few milliseconds. */
function tagsOf(count: number): string[] {
  const places = new Map(Array.from({ length: count }, (_, index) => [slotOfTag(index, count), index]));
  const tags = new Array<string>(count);
  for (let i = 0; places.size > 0; i++) {
    const tag = i.toString(36);
    const slot = keySlot(tag);
    const index = places.get(slot);
    if (index === undefined) continue;
    tags[index] = tag;
    places.delete(slot);
  }
  return tags;
}
