// Remembers counters that are over until their window ends, so that they are refused without the store (LOCAL_CACHE_SIZE_IN_BYTES,
// under COMPATIBILITY_MODE). Only for counters.

import { Mode, Outcome, type Take, type TakeGroup } from "../domain/take.ts";

/** The smallest size in bytes; a smaller one counts as this. */
const BYTES_MIN = 524_288;
/** Approximate size of an entry beside the text of its key. */
const ENTRY_BYTES = 100;
/** Entries checked, oldest first, when one is added; expired ones are dropped and not counted. */
const LOOKS_PER_ADD = 2;

/** Remembers counters by key. A key contains its window, so an expired entry denies nothing and only takes memory. */
export class LocalCache {
  readonly #bytesMax: number;
  /** The second in which the window ends, by key, in insertion order. */
  readonly #endsS = new Map<string, number>();
  #bytes = 0;
  /** Counters looked up. */
  lookups = 0;
  /** Counters that were found. */
  hits = 0;
  /** Counters dropped because their window had ended. */
  expired = 0;
  /** Counters dropped for lack of memory. */
  evicted = 0;

  constructor(bytes: number) {
    this.#bytesMax = Math.max(BYTES_MIN, bytes);
  }

  /** Number of remembered keys. */
  get size(): number {
    return this.#endsS.size;
  }

  /** Marks the takes of remembered counters as denied. True if no take is left for the store. */
  deny(group: TakeGroup): boolean {
    let isAnswered = true;
    for (let i = 0; i < group.size; i++) {
      const take = group.takes[i] as Take;
      if (take.mode === Mode.charge) this.lookups++;
      if (take.mode === Mode.charge && this.#endsS.has(take.bucketKey)) {
        this.hits++;
        take.mode = Mode.denied;
        take.outcome = Outcome.over;
      } else isAnswered = false;
    }
    return isAnswered;
  }

  /** Learns from a settled group: remembers counters that are over, forgets refunded ones. `nowS` is the current second. */
  learn(group: TakeGroup, nowS: number): void {
    for (let i = 0; i < group.size; i++) {
      const take = group.takes[i] as Take;
      if (take.mode === Mode.charge && take.outcome === Outcome.over) {
        this.#add(take.bucketKey, nowS + take.windowSecondsLeft, nowS);
      } else if (take.mode === Mode.refund && this.#endsS.has(take.bucketKey)) this.#drop(take.bucketKey);
    }
  }

  #add(key: string, endS: number, nowS: number): void {
    if (this.#endsS.has(key)) return;
    this.#endsS.set(key, endS);
    this.#bytes += bytesOf(key);
    let looks = 0;
    for (const [oldest, oldestEndS] of this.#endsS) {
      const isExpired = oldestEndS <= nowS;
      if (isExpired || this.#bytes > this.#bytesMax) {
        if (isExpired) this.expired++;
        else this.evicted++;
        this.#drop(oldest);
      } else if (++looks >= LOOKS_PER_ADD) return;
    }
  }

  #drop(key: string): void {
    this.#endsS.delete(key);
    this.#bytes -= bytesOf(key);
  }
}

function bytesOf(key: string): number {
  return key.length + ENTRY_BYTES;
}
