// Remembers which counters are over (LOCAL_CACHE_SIZE_IN_BYTES), as envoyproxy/ratelimit does.

import { divideUp, MICROS_PER_SECOND } from "../../base/units.ts";
import { Mode, Outcome, type Take, type TakeGroup } from "../domain/take.ts";

/** The smallest size in bytes; a smaller one counts as this. */
const BYTES_MIN = 524_288;
/** Approximate size of an entry without the text of its key. */
const ENTRY_BYTES = 100;
/** Entries checked, oldest first, when one is added; expired ones are dropped and not counted. */
const LOOKS_PER_ADD = 2;

/** A counter that is over: when its window ends, in seconds, and the amount that it is over. */
interface OverCounter {
  readonly endS: number;
  readonly amount: number;
}

/**
 * Remembers counters that are over until their window ends, so that they are refused without the store
 * (LOCAL_CACHE_SIZE_IN_BYTES). A key contains its window, so an expired entry denies nothing and only takes memory.
 */
export class LocalCache {
  readonly #bytesMax: number;
  /** By key, in insertion order. */
  readonly #over = new Map<string, OverCounter>();
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
    return this.#over.size;
  }

  /**
   * Marks the takes of remembered counters as denied. True if no take is left for the store. As in the reference
   * service, a call that brings a higher limit is denied, too; a caller whose limit was raised at run time (`runtime`,
   * by descriptor) is not.
   */
  deny(group: TakeGroup, runtime: readonly unknown[] = []): boolean {
    let isAnswered = true;
    for (let i = 0; i < group.size; i++) {
      const take = group.takes[i] as Take;
      const isCharge = take.limit.isCounter && take.mode === Mode.pay;
      if (isCharge) this.lookups++;
      const known = isCharge ? this.#over.get(take.bucketKey) : undefined;
      const isRaised = runtime[take.descriptor] !== undefined && take.limit.amount > (known?.amount ?? 0);
      if (known !== undefined && !isRaised) {
        this.hits++;
        take.mode = Mode.denied;
        take.outcome = Outcome.over;
        take.waitUs = take.resetUs;
      } else isAnswered = false;
    }
    return isAnswered;
  }

  /**
   * Learns from a decided group: remembers counters that are over, forgets refunded ones. `nowS` is the current second.
   */
  learn(group: TakeGroup, nowS: number): void {
    for (let i = 0; i < group.size; i++) {
      const take = group.takes[i] as Take;
      if (!take.limit.isCounter) continue;
      if (take.mode === Mode.pay && take.outcome === Outcome.over) {
        this.#add(take, nowS + divideUp(take.resetUs, MICROS_PER_SECOND), nowS);
      } else if (take.mode === Mode.refund && this.#over.has(take.bucketKey)) this.#drop(take.bucketKey);
    }
  }

  #add({ bucketKey: key, limit: { amount } }: Take, endS: number, nowS: number): void {
    const isNew = !this.#over.has(key);
    this.#over.set(key, { endS, amount });
    if (!isNew) return;
    this.#bytes += bytesOf(key);
    let looks = 0;
    for (const [oldest, { endS: oldestEndS }] of this.#over) {
      const isExpired = oldestEndS <= nowS;
      if (isExpired || this.#bytes > this.#bytesMax) {
        if (isExpired) this.expired++;
        else this.evicted++;
        this.#drop(oldest);
      } else if (++looks >= LOOKS_PER_ADD) return;
    }
  }

  #drop(key: string): void {
    this.#over.delete(key);
    this.#bytes -= bytesOf(key);
  }
}

function bytesOf(key: string): number {
  return key.length + ENTRY_BYTES;
}
