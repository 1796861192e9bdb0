// on_store_failure: local. Decides takes that the store left unanswered from this process's memory: each process grants its
// part of the limit, starting from what the store said last.

import { invariant } from "../core/invariant.ts";
import { type Limit, OnStoreFailure } from "../core/limit.ts";
import { partOfLimit } from "../core/limit-part.ts";
import { copyAnswer, copyQuestion, Mode, Outcome, type Take, TakeGroup } from "../core/take.ts";
import { COST_ABOVE_ALL, divideDown, MICROS_PER_SECOND } from "../core/units.ts";
import { isOver } from "../core/verdict.ts";
import type { SettleListener, Store } from "../stores/store.ts";

/** Buckets of which is remembered what was last heard of them, or that they are counted here. */
const KNOWN_MAX = 50_000;
/** A sliding window keeps two counts of up to AMOUNT_MAX each; all others are as new after one refund of more than that. */
const REFUNDS = 2;
/** No process is the first here, so what a limit leaves over when it is cut goes to nobody. */
const NOT_FIRST = 1;

interface Known {
  /** What the store said last, what is kept for calls of high priority included. Of no meaning once the bucket is counted here. */
  remaining: number;
  /** When the bucket is as new, by the process's clock: what was known means nothing after that. */
  asNewAtUs: number;
  isCountedHere: boolean;
}

// The fallback store settles before it returns, so nobody is ever told later.
const NOBODY: SettleListener = {
  settled: () => invariant(false, "the fallback store settles every take before it returns"),
};

/**
 * A bucket is counted here from its first unanswered take until the store answers one of it, whatever becomes of others.
 * Each such time grants at most this process's part of what the store last said was left, plus what returns meanwhile.
 */
export class LocalFallback {
  readonly #openStore: () => Store;
  readonly #processCount: () => number;
  #store: Store | undefined;
  /** When all that is counted here is as new. */
  #asNewAtUs = 0;
  readonly #known = new Map<string, Known>();
  readonly #asked = new TakeGroup();
  readonly #other = new TakeGroup();
  readonly #parts = new WeakMap<Limit, { processCount: number; limit: Limit }>();

  /** `openStore` makes an empty memory store; it must settle every take before it returns. */
  constructor(openStore: () => Store, processCount: () => number) {
    this.#openStore = openStore;
    this.#processCount = processCount;
  }

  /** Hears of a decided call: remembers what the store said of buckets that may have to be decided here, and ends counting those here. */
  storeAnswered(group: TakeGroup, nowUs: number): void {
    for (let i = 0; i < group.size; i++) {
      const take = group.takes[i] as Take;
      if (take.limit.onStoreFailure !== OnStoreFailure.local || take.byPolicy || take.outcome === Outcome.unanswered)
        continue;
      if (this.#store !== undefined && this.#known.get(take.bucketKey)?.isCountedHere) this.#empty(take, this.#store);
      const resetUs = isOver(take) ? Math.max(take.waitUs, take.resetUs) : take.resetUs;
      const asNewAtUs = nowUs + resetUs + take.windowSecondsLeft * MICROS_PER_SECOND;
      // To who has nothing left the store does not say how much of what is kept for others has gone: none, it is taken.
      const remaining = take.remaining + take.limit.reserve;
      this.#remember(take.bucketKey, { remaining, asNewAtUs, isCountedHere: false });
    }
    if (this.#store !== undefined && nowUs >= this.#asNewAtUs) this.#drop();
  }

  /** Answers the unanswered takes of limits that say local, each limit cut to this process's part. */
  settle(group: TakeGroup, nowUs: number): void {
    this.#store ??= this.#openStore();
    const processCount = Math.max(1, this.#processCount());
    this.#asked.reset();
    this.#asked.hasCounters = group.hasCounters;
    this.#asked.stopsAtOver = group.stopsAtOver;
    // Quota descriptors refuse a call together, and not all are here.
    this.#asked.hasSpareQuota = true;
    for (let i = 0; i < group.size; i++) {
      const take = group.takes[i] as Take;
      if (!isForHere(take)) continue;
      const asked = copyQuestion(take, this.#asked);
      asked.limit = this.#partOf(take.limit, processCount);
      this.#seed(asked, nowUs, processCount, this.#store);
    }
    this.#store.take(this.#asked, NOBODY);
    this.#writeAnswers(group, nowUs);
  }

  /** Gives back what `settle` has paid. */
  giveBack(group: TakeGroup): void {
    const processCount = Math.max(1, this.#processCount());
    for (let i = 0; i < group.size; i++) {
      const take = group.takes[i] as Take;
      take.limit = this.#partOf(take.limit, processCount);
    }
    this.#store?.giveBack(group);
  }

  #writeAnswers(group: TakeGroup, nowUs: number): void {
    let next = 0;
    for (let i = 0; i < group.size; i++) {
      const take = group.takes[i] as Take;
      if (!isForHere(take)) continue;
      const asked = this.#asked.takes[next++] as Take;
      copyAnswer(asked, take);
      take.byPolicy = take.outcome !== Outcome.unanswered;
      const asNewAtUs = nowUs + take.resetUs + take.windowSecondsLeft * MICROS_PER_SECOND;
      this.#asNewAtUs = take.limit.amount === 0 ? Number.POSITIVE_INFINITY : Math.max(this.#asNewAtUs, asNewAtUs);
    }
  }

  /** Makes the bucket as new: the store counts it again. */
  #empty({ bucketKey, keyHash, limit, windowSecondsLeft }: Take, store: Store): void {
    this.#other.reset();
    for (let i = 0; i < REFUNDS; i++) {
      const refund = this.#other.add(limit);
      refund.bucketKey = bucketKey;
      refund.keyHash = keyHash;
      refund.windowSecondsLeft = windowSecondsLeft;
      refund.mode = Mode.refund;
      refund.cost = COST_ABOVE_ALL;
    }
    this.#other.hasCounters = limit.isCounter;
    store.take(this.#other, NOBODY);
  }

  #drop(): void {
    void this.#store?.close();
    this.#store = undefined;
  }

  #remember(bucketKey: string, known: Known): void {
    // Re-inserting moves the bucket to the end, so the first one is the one not heard of longest.
    this.#known.delete(bucketKey);
    this.#known.set(bucketKey, known);
    if (this.#known.size <= KNOWN_MAX) return;
    for (const oldest of this.#known.keys()) {
      this.#known.delete(oldest);
      break;
    }
  }

  // The first local take of a bucket pays beforehand what the store had last said was gone.
  #seed(take: Take, nowUs: number, processCount: number, store: Store): void {
    const known = this.#known.get(take.bucketKey);
    if (known?.isCountedHere) return;
    this.#remember(take.bucketKey, { remaining: 0, asNewAtUs: 0, isCountedHere: true });
    if (known === undefined || nowUs >= known.asNewAtUs) return;
    const burst = take.limit.burst + take.limit.reserve;
    const gone = burst - divideDown(Math.min(known.remaining, burst * processCount), processCount);
    if (gone <= 0) return;
    this.#other.reset();
    const payment = this.#other.add(take.limit);
    payment.bucketKey = take.bucketKey;
    payment.keyHash = take.keyHash;
    payment.mode = Mode.postPaid;
    payment.cost = gone;
    store.take(this.#other, NOBODY);
  }

  #partOf(limit: Limit, processCount: number): Limit {
    const kept = this.#parts.get(limit);
    if (kept !== undefined && kept.processCount === processCount) return kept.limit;
    const part = partOfLimit(limit, processCount, NOT_FIRST);
    this.#parts.set(limit, { processCount, limit: part });
    return part;
  }
}

function isForHere(take: Take): boolean {
  return take.outcome === Outcome.unanswered && take.limit.onStoreFailure === OnStoreFailure.local;
}
