// A table of remembered buckets with a fixed number of sets of a few slots. A key belongs to one set; if its slots are taken, the entry that ends
// soonest is replaced. So the table never grows, moves entries, or has to be swept.

import type { Limit } from "../../engine/domain/limit.ts";
import type { LastAnswer } from "../last-answer.ts";

const SLOTS_PER_SET = 4;

/** The store's last answers about one bucket. */
export class RememberedBucket implements LastAnswer {
  bucketKey: string;
  /** The limit of the answer: calls of another priority pay the same bucket by another limit, and know nothing by it. Undefined if nothing is known; the entry only makes older answers be ignored. */
  limit: Limit | undefined = undefined;
  remaining = 0;
  resetAtUs = 0;
  /** End of the use of this entry. */
  untilUs = 0;
  /** The smallest refused cost; Infinity if none was refused. */
  refusedCost = Number.POSITIVE_INFINITY;
  /** End of the refusal. */
  refusedUntilUs = 0;
  /** When the refused cost passes, by the answer. */
  passesAtUs = 0;
  /** Number of the take that the answer came from, in the order of sending; answers of earlier takes are ignored. */
  sequence = 0;
  /** Number of the last take before something was undone; refusals of takes up to it are ignored. */
  undoneSequence = 0;

  constructor(bucketKey: string) {
    this.bucketKey = bucketKey;
  }
}

/** Remembered buckets by key. */
export class DenialTable {
  readonly #slots: (RememberedBucket | undefined)[];
  readonly #sets: number;

  /** Has room for `entriesMax` buckets, rounded down to whole sets, but at least for one set. */
  constructor(entriesMax: number) {
    this.#sets = Math.max(1, Math.floor(entriesMax / SLOTS_PER_SET));
    this.#slots = new Array<RememberedBucket | undefined>(this.#sets * SLOTS_PER_SET).fill(undefined);
  }

  find(keyHash: number, bucketKey: string): RememberedBucket | undefined {
    const first = (keyHash % this.#sets) * SLOTS_PER_SET;
    for (let i = first; i < first + SLOTS_PER_SET; i++) {
      const entry = this.#slots[i];
      if (entry === undefined) return undefined;
      if (entry.bucketKey === bucketKey) return entry;
    }
    return undefined;
  }

  /** The key's entry: its own, or another's that is cleared for it. */
  obtain(keyHash: number, bucketKey: string): RememberedBucket {
    const first = (keyHash % this.#sets) * SLOTS_PER_SET;
    let soonest: RememberedBucket | undefined;
    for (let i = first; i < first + SLOTS_PER_SET; i++) {
      let entry = this.#slots[i];
      if (entry === undefined) {
        entry = new RememberedBucket(bucketKey);
        this.#slots[i] = entry;
      }
      if (entry.bucketKey === bucketKey) return entry;
      if (soonest === undefined || entry.untilUs < soonest.untilUs) soonest = entry;
    }
    const victim = soonest ?? new RememberedBucket(bucketKey);
    victim.bucketKey = bucketKey;
    victim.limit = undefined;
    victim.refusedCost = Number.POSITIVE_INFINITY;
    victim.untilUs = 0;
    victim.sequence = 0;
    victim.undoneSequence = 0;
    return victim;
  }
}
