// The hash tags of buckets in a Redis Cluster. There are few tags, so that takes of many descriptors belong to one hash
// slot and travel in one script call (docs/decisions/0016-few-hash-tags.md). The tag follows the prefix in the stored
// key; rules and other stores don't know of it. Counters of COMPATIBILITY_MODE keep the keys of envoyproxy/ratelimit,
// without a tag.

import { hashBucketKey } from "../../engine/domain/key-bytes.ts";
import type { Take } from "../../engine/domain/take.ts";

/** Number of slots of a cluster. */
export const SLOTS = 16_384;

/** Default of REDIS_CLUSTER_TAGS: good for three or four primaries, sufficient for eight. */
const TAGS_DEFAULT = 16;

/** LockedKeys from here on belong to one bucket each. */
const ALONE = 2 ** 32;

/**
 * The tags of a cluster. A queue is a number for buckets that may travel together: a hash slot, for counters; SLOTS
 * plus the number of a tag; or, while a slot moves, a number of one bucket alone.
 */
export class ClusterTags {
  readonly count: number;
  readonly #keyPrefix: string;
  readonly #tags: readonly string[];

  /** `keyPrefix`: the beginning of every bucket key. */
  constructor(count = TAGS_DEFAULT, keyPrefix = "") {
    this.count = count;
    this.#keyPrefix = keyPrefix;
    this.#tags = tagsOf(count);
  }

  /**
   * The queue of a take's bucket. The slot that the key has without a tag decides the tag, so all limits of one
   * descriptor get one tag. The tag's own slot is in the middle of the SLOTS / count slots that get it.
   */
  queueOf({ bucketKey, limit }: Pick<Take, "bucketKey" | "limit">): number {
    const slot = keySlot(bucketKey);
    return limit.isCounter ? slot : SLOTS + Math.floor((slot * this.count) / SLOTS);
  }

  /** A queue for this bucket alone, with the same slot. */
  queueAlone(take: Pick<Take, "bucketKey" | "limit">): number {
    return (this.queueOf(take) + 1) * ALONE + hashBucketKey(take.bucketKey);
  }

  /** A queue for this key alone, which is stored as it is. */
  queueUntagged(key: string): number {
    return (keySlot(key) + 1) * ALONE + hashBucketKey(key);
  }

  /** The hash slot of all stored keys of a queue. */
  slotOf(queue: number): number {
    const shared = sharedQueue(queue);
    return shared < SLOTS ? shared : slotOfTag(shared - SLOTS, this.count);
  }

  /** The key that a bucket of the queue is stored under. */
  storedKey(bucketKey: string, queue: number): string {
    const tag = this.#tags[sharedQueue(queue) - SLOTS];
    if (tag === undefined) return bucketKey;
    const prefix = bucketKey.startsWith(this.#keyPrefix) ? this.#keyPrefix : "";
    return `${prefix}{${tag}}${bucketKey.slice(prefix.length)}`;
  }
}

/** The queue that a single bucket's queue was derived from; any other queue unchanged. */
function sharedQueue(queue: number): number {
  return queue < ALONE ? queue : Math.floor(queue / ALONE) - 1;
}

/** The slot of a tag: in the middle of the slots whose keys get the tag. */
function slotOfTag(index: number, count: number): number {
  return Math.floor(((index + 0.5) * SLOTS) / count);
}

/**
 * The first short text for the slot of each tag, found by trial: some hundred thousand trials in a few milliseconds.
 */
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

const TABLE = Uint16Array.from({ length: 256 }, (_, byte) => {
  let crc = byte << 8;
  for (let bit = 0; bit < 8; bit++) crc = (crc & 0x8000) === 0 ? crc << 1 : (crc << 1) ^ 0x1021;
  return crc & 0xffff;
});

/**
 * The hash slot of a key in one-byte text, 0 to SLOTS - 1, by the specification of Redis Cluster: CRC16 (XMODEM) of the
 * hash tag, which is the text between the first `{` and the next `}`; or of the whole key if there is no such text.
 */
export function keySlot(key: string): number {
  let from = 0;
  let to = key.length;
  const open = key.indexOf("{");
  if (open >= 0) {
    const close = key.indexOf("}", open + 1);
    if (close > open + 1) {
      from = open + 1;
      to = close;
    }
  }
  let crc = 0;
  for (let i = from; i < to; i++) {
    crc = ((crc << 8) & 0xffff) ^ (TABLE[((crc >> 8) ^ key.charCodeAt(i)) & 0xff] as number);
  }
  return crc % SLOTS;
}
