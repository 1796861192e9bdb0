// What is remembered of buckets, by key, in bounded number: a fixed number of sets of a few slots each. A key has one
// set; when its slots are taken, what ends soonest gives way. So nothing grows, moves or has to be swept.

import type { Limit } from "../../core/limit.ts";
import type { LastAnswer } from "../last-answer.ts";

const SLOTS_PER_SET = 4;

/** What the last answers of the store said of one bucket. */
export class RememberedBucket implements LastAnswer {
  bucketKey: string;
  /** What a bucket says to calls of low priority is remembered apart: they are refused where others are not. */
  isOfLow: boolean;
  /** The limit that the answer was about; undefined if nothing is known, only that older answers don't count. */
  limit: Limit | undefined = undefined;
  remaining = 0;
  asNewAtUs = 0;
  /** None of this may be used from then on. */
  untilUs = 0;
  /** The smallest cost that was refused, Infinity if none was. */
  refusedCost = Number.POSITIVE_INFINITY;
  /** The refusal holds until then. */
  refusedUntilUs = 0;
  /** When that cost passes, as told. */
  passesAtUs = 0;
  /** Which take (by the order they were sent in) this is known from; older ones say nothing new. */
  sequence = 0;

  constructor(bucketKey: string, isOfLow: boolean) {
    this.bucketKey = bucketKey;
    this.isOfLow = isOfLow;
  }
}

/** RememberedBucket buckets by key. Slots are filled with their first bucket. */
export class DenialTable {
  readonly #slots: (RememberedBucket | undefined)[];
  readonly #sets: number;

  /** Holds `entriesMax` buckets, rounded down to whole sets; at least one set of four. */
  constructor(entriesMax: number) {
    this.#sets = Math.max(1, Math.floor(entriesMax / SLOTS_PER_SET));
    this.#slots = new Array<RememberedBucket | undefined>(this.#sets * SLOTS_PER_SET).fill(undefined);
  }

  find(keyHash: number, bucketKey: string, isOfLow: boolean): RememberedBucket | undefined {
    const first = (keyHash % this.#sets) * SLOTS_PER_SET;
    for (let i = first; i < first + SLOTS_PER_SET; i++) {
      const entry = this.#slots[i];
      if (entry === undefined) return undefined;
      if (entry.isOfLow === isOfLow && entry.bucketKey === bucketKey) return entry;
    }
    return undefined;
  }

  /** The entry of the key: its own, or one that was another's and knows nothing now. */
  obtain(keyHash: number, bucketKey: string, isOfLow: boolean): RememberedBucket {
    const first = (keyHash % this.#sets) * SLOTS_PER_SET;
    let soonest: RememberedBucket | undefined;
    for (let i = first; i < first + SLOTS_PER_SET; i++) {
      let entry = this.#slots[i];
      if (entry === undefined) {
        entry = new RememberedBucket(bucketKey, isOfLow);
        this.#slots[i] = entry;
      }
      if (entry.isOfLow === isOfLow && entry.bucketKey === bucketKey) return entry;
      if (soonest === undefined || entry.untilUs < soonest.untilUs) soonest = entry;
    }
    const victim = soonest ?? new RememberedBucket(bucketKey, isOfLow);
    victim.bucketKey = bucketKey;
    victim.isOfLow = isOfLow;
    victim.limit = undefined;
    victim.refusedCost = Number.POSITIVE_INFINITY;
    victim.untilUs = 0;
    victim.sequence = 0;
    return victim;
  }
}
