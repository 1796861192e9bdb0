// What is remembered of buckets, by key, in bounded number: a fixed number of sets of a few places each. A key has one
// set; when its places are taken, what ends soonest gives way. So nothing grows, moves or has to be swept.

import type { Limit } from "../../core/limit.ts";
import type { Standing } from "./standing.ts";

const PLACES_PER_SET = 4;

/** What the last answers of the store said of one bucket. */
export class Remembered implements Standing {
  bucketKey: string;
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

  constructor(bucketKey: string) {
    this.bucketKey = bucketKey;
  }
}

/** Remembered buckets by key. Places come into being with their first bucket. */
export class DenialTable {
  readonly #places: (Remembered | undefined)[];
  readonly #sets: number;

  /** Holds `entriesMax` buckets, rounded down to whole sets; at least one set of four. */
  constructor(entriesMax: number) {
    this.#sets = Math.max(1, Math.floor(entriesMax / PLACES_PER_SET));
    this.#places = new Array<Remembered | undefined>(this.#sets * PLACES_PER_SET).fill(undefined);
  }

  find(keyHash: number, bucketKey: string): Remembered | undefined {
    const first = (keyHash % this.#sets) * PLACES_PER_SET;
    for (let i = first; i < first + PLACES_PER_SET; i++) {
      const entry = this.#places[i];
      if (entry === undefined) return undefined;
      if (entry.bucketKey === bucketKey) return entry;
    }
    return undefined;
  }

  /** The entry of the key: its own, or one that was another's and knows nothing now. */
  obtain(keyHash: number, bucketKey: string): Remembered {
    const first = (keyHash % this.#sets) * PLACES_PER_SET;
    let soonest: Remembered | undefined;
    for (let i = first; i < first + PLACES_PER_SET; i++) {
      let entry = this.#places[i];
      if (entry === undefined) {
        entry = new Remembered(bucketKey);
        this.#places[i] = entry;
      }
      if (entry.bucketKey === bucketKey) return entry;
      if (soonest === undefined || entry.untilUs < soonest.untilUs) soonest = entry;
    }
    const victim = soonest ?? new Remembered(bucketKey);
    victim.bucketKey = bucketKey;
    victim.limit = undefined;
    victim.refusedCost = Number.POSITIVE_INFINITY;
    victim.untilUs = 0;
    victim.sequence = 0;
    return victim;
  }
}
