// Decides takes that the store left unanswered: each take by the on_store_failure of its limit, then the call by all
// its takes, as without a failure. Answers of the store stay valid, and its payments are kept if the call passes.

import { divideDown, MICROS_PER_SECOND } from "../../base/units.ts";
import { type Limit, OnStoreFailure, partOfLimit } from "../domain/limit.ts";
import { type LocalStore, NOBODY, type Store } from "../domain/store.ts";
import {
  canRefuseCall,
  copyAnswer,
  copyQuestion,
  isOver,
  Kind,
  Mode,
  Outcome,
  Source,
  type Take,
  TakeGroup,
  Verdict,
} from "../domain/take.ts";
import { collectReturns, isGroupRefused } from "../domain/verdict.ts";

/** The wait that callers get from `deny`. Nobody knows how long the store will be away. */
const DENIED_WAIT_US = MICROS_PER_SECOND;

/** Decides calls with unanswered takes. */
export class FailurePolicy {
  readonly #store: Store;
  readonly #fallback: LocalFallback;
  readonly #toStore = new TakeGroup();
  readonly #toFallback = new TakeGroup();

  constructor(store: Store, fallback: LocalFallback) {
    this.#store = store;
    this.#fallback = fallback;
  }

  /**
   * Decides a failed group: afterwards it is allowed, refused, or still failed if the call must end with an error. If
   * any take refuses (by the store's answer, by `deny` or by `local`), the call is refused; else one `error` ends it.
   * Shadow takes have no say. Reports, refunds and settlements refuse nothing. Returns the strictest policy of the
   * unanswered takes that had its way.
   */
  decide(group: TakeGroup, nowUs: number): OnStoreFailure {
    const policy = denyUnanswered(group);
    let isRefused = isGroupRefused(group);
    if (!isRefused && hasUnanswered(group, OnStoreFailure.local)) {
      this.#fallback.settle(group, nowUs);
      isRefused = isGroupRefused(group);
    }
    const endsWithError = !isRefused && hasUnanswered(group, OnStoreFailure.error);
    if (!endsWithError) group.verdict = isRefused ? Verdict.refused : Verdict.allowed;
    this.#collectReturns(group, group.verdict);
    group.source = Source.local;
    return endsWithError ? OnStoreFailure.error : policy;
  }

  /** Returns the payments that the group made to pass; keeps post-paid hits. */
  giveBack(group: TakeGroup): void {
    this.#collectReturns(group, Verdict.refused);
  }

  #collectReturns(group: TakeGroup, verdict: Verdict): void {
    this.#toStore.reset();
    this.#toFallback.reset();
    collectReturns(group, verdict, this.#toStore, this.#toFallback);
    if (this.#toStore.size > 0) this.#store.giveBack(this.#toStore);
    if (this.#toFallback.size > 0) this.#fallback.giveBack(this.#toFallback);
  }
}

/**
 * Refuses the unanswered takes of limits with `deny`. Returns the strictest policy of unanswered takes, `error` last.
 */
function denyUnanswered(group: TakeGroup): OnStoreFailure {
  let policy: OnStoreFailure | undefined;
  for (let i = 0; i < group.size; i++) {
    const take = group.takes[i] as Take;
    if (take.outcome !== Outcome.unanswered) continue;
    const {
      policy: { onStoreFailure },
    } = take.limit;
    if (onStoreFailure === OnStoreFailure.error) continue;
    if (policy === undefined || onStoreFailure > policy) policy = onStoreFailure;
    if (onStoreFailure === OnStoreFailure.deny && canRefuseCall(take)) deny(take);
  }
  return policy ?? OnStoreFailure.error;
}

function deny(take: Take): void {
  take.outcome = Outcome.over;
  take.byPolicy = true;
  take.remaining = 0;
  take.waitUs = DENIED_WAIT_US;
}

/** Whether any unanswered take has this policy. For `error` shadow takes do not count. */
function hasUnanswered(group: TakeGroup, policy: OnStoreFailure): boolean {
  for (let i = 0; i < group.size; i++) {
    const take = group.takes[i] as Take;
    if (take.outcome !== Outcome.unanswered || take.limit.policy.onStoreFailure !== policy) continue;
    if (policy === OnStoreFailure.local || take.kind !== Kind.shadow) return true;
  }
  return false;
}

/**
 * Whether a report or refund of a call that ends with an error may be kept, so that the same call sent again would
 * count it twice. A settlement with an id counts once.
 */
export function mayCountTwice(group: TakeGroup): boolean {
  for (let i = 0; i < group.size; i++) {
    const { mode, holdId, outcome, paid } = group.takes[i] as Take;
    const isReport = mode === Mode.postPaid || mode === Mode.refund || (mode === Mode.settle && holdId === "");
    if (isReport && (outcome === Outcome.unanswered ? group.failure?.isOutcomeUnknown : paid)) return true;
  }
  return false;
}

/** Most buckets whose last answer, or local counting, is remembered. */
const KNOWN_MAX = 50_000;

interface Known {
  /** `remaining` of the store's last answer plus the limit's reserve. Unused while the bucket is counted here. */
  remaining: number;
  /** When the bucket is full, in microseconds of the process's clock; `remaining` is out of date then. */
  asNewAtUs: number;
  isCountedHere: boolean;
}

/**
 * on_store_failure: local. Decides unanswered takes in this process's memory: each process grants its part of the
 * limit, starting from the store's last answer. Counts a bucket locally from its first unanswered take until the store
 * next answers a take on it. During that time this process grants at most its part of what the store last reported as
 * remaining, plus its part of what returns meanwhile.
 */
export class LocalFallback {
  readonly #openStore: () => LocalStore;
  readonly #processCount: () => number;
  #store: LocalStore | undefined;
  /** When all buckets counted here are full, in microseconds. */
  #asNewAtUs = 0;
  readonly #known = new Map<string, Known>();
  readonly #asked = new TakeGroup();
  /** The takes of the group that `#asked` asks, in the same order. */
  readonly #decided: Take[] = [];
  readonly #other = new TakeGroup();
  readonly #parts = new WeakMap<Limit, { processCount: number; limit: Limit }>();

  /** `openStore` makes an empty store. */
  constructor(openStore: () => LocalStore, processCount: () => number) {
    this.#openStore = openStore;
    this.#processCount = processCount;
  }

  /**
   * Called after each call that the store answered: remembers its answers for limits with `local`, and ends their local
   * counting.
   */
  storeAnswered(group: TakeGroup, nowUs: number): void {
    for (let i = 0; i < group.size; i++) {
      const take = group.takes[i] as Take;
      if (
        take.limit.policy.onStoreFailure !== OnStoreFailure.local ||
        take.byPolicy ||
        take.outcome === Outcome.unanswered
      )
        continue;
      if (this.#store !== undefined && this.#known.get(take.bucketKey)?.isCountedHere) this.#store.forget(take);
      const resetUs = isOver(take) ? Math.max(take.waitUs, take.resetUs) : take.resetUs;
      const asNewAtUs = nowUs + resetUs;
      // At 0 remaining, the store does not tell how much of the reserve is used; it counts as unused.
      const remaining = take.remaining + take.limit.reserve;
      this.#remember(take.bucketKey, { remaining, asNewAtUs, isCountedHere: false });
    }
    if (this.#store !== undefined && nowUs >= this.#asNewAtUs) this.#drop();
  }

  /**
   * Answers the unanswered takes of limits with `local`, with each limit cut to this process's part. A settlement of a
   * hold that was not opened here stays unanswered: the store may have that hold.
   */
  settle(group: TakeGroup, nowUs: number): void {
    this.#store ??= this.#openStore();
    const processCount = Math.max(1, this.#processCount());
    this.#asked.reset();
    // Quota descriptors refuse a call only together, and this group may not have all of them.
    this.#asked.hasSpareQuota = true;
    for (let i = 0; i < group.size; i++) {
      const take = group.takes[i] as Take;
      if (take.outcome !== Outcome.unanswered || take.limit.policy.onStoreFailure !== OnStoreFailure.local) continue;
      if (take.mode === Mode.settle && !this.#store.knowsHold(take)) continue;
      this.#decided.push(take);
      const asked = copyQuestion(take, this.#asked);
      asked.limit = this.#partOf(take.limit, processCount);
      this.#seed(asked, nowUs, processCount, this.#store);
    }
    this.#store.take(this.#asked, NOBODY);
    this.#writeAnswers(nowUs);
  }

  /** Gives back payments of `settle`. Replaces the limits of the takes by their parts. */
  giveBack(group: TakeGroup): void {
    const processCount = Math.max(1, this.#processCount());
    for (let i = 0; i < group.size; i++) {
      const take = group.takes[i] as Take;
      take.limit = this.#partOf(take.limit, processCount);
    }
    this.#store?.giveBack(group);
  }

  #writeAnswers(nowUs: number): void {
    for (let i = 0; i < this.#asked.size; i++) {
      const take = this.#decided[i] as Take;
      copyAnswer(this.#asked.takes[i] as Take, take);
      take.byPolicy = take.outcome !== Outcome.unanswered;
      this.#asNewAtUs = Math.max(this.#asNewAtUs, nowUs + lastsUs(take));
    }
    this.#decided.length = 0;
  }

  #drop(): void {
    void this.#store?.close();
    this.#store = undefined;
  }

  #remember(bucketKey: string, known: Known): void {
    // Re-inserting moves the key to the end of the Map, so the first key is the least recently answered one.
    this.#known.delete(bucketKey);
    this.#known.set(bucketKey, known);
    if (this.#known.size <= KNOWN_MAX) return;
    for (const oldest of this.#known.keys()) {
      this.#known.delete(oldest);
      break;
    }
  }

  // Before the first local take of a bucket, pays what the store last reported as used.
  #seed(take: Take, nowUs: number, processCount: number, store: LocalStore): void {
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
    const part = partOfLimit(limit, processCount);
    this.#parts.set(limit, { processCount, limit: part });
    return part;
  }
}

/** For how long what the take has changed matters, in microseconds. */
function lastsUs({ limit, resetUs }: Take): number {
  if (limit.isConcurrent) return limit.holdSeconds * MICROS_PER_SECOND;
  return limit.amount === 0 ? Number.POSITIVE_INFINITY : resetUs;
}
