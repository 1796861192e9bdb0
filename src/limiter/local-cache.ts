// Counters that are over, remembered until their window ends, so that they are refused without the store
// (LOCAL_CACHE_SIZE_IN_BYTES, under COMPATIBILITY_MODE). Other limits never come here.

import { Mode, Outcome, type Take, type TakeGroup } from "../core/take.ts";

/** The smallest size in bytes; a smaller one counts as this. */
const BYTES_MIN = 524_288;
/** What an entry takes beside the text of its key, roughly. */
const ENTRY_BYTES = 100;
/** Entries looked at, oldest first, when one is added: the expired among them go. */
const LOOKS_PER_ADD = 2;

/** Remembers counters by key. A key names its window, so an old entry denies nothing; it only takes room until it goes. */
export class LocalCache {
  readonly #bytesMax: number;
  /** Second in which the window ends, by key, in the order in which they came. */
  readonly #endsS = new Map<string, number>();
  #bytes = 0;
  /** Counters looked up, and those that were found. */
  lookups = 0;
  hits = 0;
  /** Counters dropped: their window had ended, or there was no room. */
  expired = 0;
  evicted = 0;

  constructor(bytes: number) {
    this.#bytesMax = Math.max(BYTES_MIN, bytes);
  }

  /** Keys remembered. */
  get size(): number {
    return this.#endsS.size;
  }

  /** Marks the takes of remembered counters as denied. True if that leaves nothing to ask the store. */
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

  /** Learns from what the store has settled: counters that are over stay so for their window, refunded ones do not. */
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
