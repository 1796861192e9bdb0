// What a store failure means for a call: allow, deny, local or error, by the rules involved. Always counted.
// `local` lets each process grant its share of the limit from memory, starting from what it last knew.

import { invariant } from "../core/invariant.ts";
import { Algorithm, type Limit, OnStoreFailure } from "../core/limit.ts";
import { Mode, Source, type Take, TakeGroup, Verdict } from "../core/take.ts";
import { divideDown, MICROS_PER_SECOND } from "../core/units.ts";
import type { Settled, Store } from "../stores/store.ts";
import type { LimitCall } from "./call.ts";
import { asksAdmission, isOver } from "./combine.ts";

/** Buckets whose last answer is remembered for rules with `on_store_failure: local`. */
const LAST_KNOWN_MAX = 50_000;

interface LastKnown {
  remaining: number;
  /** When the bucket is as new, by the process's clock: what was known means nothing after that. */
  asNewAtUs: number;
}

/** The policy that decides for the call: error before deny before local before allow. Calls that ask nothing are allowed. */
export function policyOf(call: LimitCall): OnStoreFailure {
  let policy: OnStoreFailure = OnStoreFailure.allow;
  for (let i = 0; i < call.group.size; i++) {
    const take = call.group.takes[i] as Take;
    if (asksAdmission(take) && take.limit.onStoreFailure > policy) policy = take.limit.onStoreFailure;
  }
  return policy;
}

// The fallback store settles before it returns, so nobody is ever told later.
const NOBODY: Settled = {
  settled: () => invariant(false, "the fallback store settles every take before it returns"),
};

/** Decides from this process's memory while the store is away. */
export class LocalFallback {
  readonly #openStore: () => Store;
  readonly #processCount: () => number;
  #store: Store | undefined;
  readonly #lastKnown = new Map<string, LastKnown>();
  readonly #spent = new TakeGroup();
  readonly #shares = new WeakMap<Limit, { processCount: number; limit: Limit }>();

  /** `openStore` makes an empty memory store; it must settle every take before it returns. */
  constructor(openStore: () => Store, processCount: () => number) {
    this.#openStore = openStore;
    this.#processCount = processCount;
  }

  /** Remembers what the store said of buckets that may have to be decided locally, and ends a local spell. */
  storeAnswered(group: TakeGroup, nowUs: number): void {
    if (this.#store !== undefined) this.#drop();
    for (let i = 0; i < group.size; i++) {
      const take = group.takes[i] as Take;
      if (take.limit.onStoreFailure === OnStoreFailure.local) this.#remember(take, nowUs);
    }
  }

  /** Settles the group with each limit cut to this process's share. The takes keep their limits. */
  settle(group: TakeGroup, nowUs: number): void {
    this.#store ??= this.#openStore();
    const processCount = Math.max(1, this.#processCount());
    const limits: Limit[] = [];
    for (let i = 0; i < group.size; i++) {
      const take = group.takes[i] as Take;
      limits.push(take.limit);
      take.limit = this.#shareOf(take.limit, processCount);
      this.#seed(take, nowUs, processCount, this.#store);
    }
    group.verdict = Verdict.pending;
    this.#store.take(group, NOBODY);
    for (let i = 0; i < group.size; i++) {
      const take = group.takes[i] as Take;
      const written = limits[i] as Limit;
      take.limit = written;
    }
    group.source = Source.local;
  }

  #drop(): void {
    void this.#store?.close();
    this.#store = undefined;
  }

  #remember(take: Take, nowUs: number): void {
    const resetUs = isOver(take) ? Math.max(take.waitUs, take.resetUs) : take.resetUs;
    const asNewAtUs = nowUs + resetUs + take.windowSecondsLeft * MICROS_PER_SECOND;
    // Re-inserting moves the bucket to the end, so the first one is the one not heard of longest.
    this.#lastKnown.delete(take.bucketKey);
    this.#lastKnown.set(take.bucketKey, { remaining: take.remaining, asNewAtUs });
    if (this.#lastKnown.size <= LAST_KNOWN_MAX) return;
    for (const oldest of this.#lastKnown.keys()) {
      this.#lastKnown.delete(oldest);
      break;
    }
  }

  // The first local take of a bucket pays beforehand what the store had last said was gone.
  #seed(take: Take, nowUs: number, processCount: number, store: Store): void {
    const known = this.#lastKnown.get(take.bucketKey);
    if (known === undefined) return;
    this.#lastKnown.delete(take.bucketKey);
    if (nowUs >= known.asNewAtUs) return;
    const gone =
      take.limit.burst - divideDown(Math.min(known.remaining, take.limit.burst * processCount), processCount);
    if (gone <= 0) return;
    this.#spent.reset();
    const payment = this.#spent.add(take.limit);
    payment.bucketKey = take.bucketKey;
    payment.keyHash = take.keyHash;
    payment.mode = Mode.postPaid;
    payment.cost = gone;
    store.take(this.#spent, NOBODY);
  }

  #shareOf(limit: Limit, processCount: number): Limit {
    if (processCount === 1) return limit;
    const kept = this.#shares.get(limit);
    if (kept !== undefined && kept.processCount === processCount) return kept.limit;
    const share = shareOf(limit, processCount);
    this.#shares.set(limit, { processCount, limit: share });
    return share;
  }
}

// A bucket's rate is cut by a longer window, which is exact; its amount may be a single token.
function shareOf(limit: Limit, processCount: number): Limit {
  const burst = cut(limit.burst, processCount);
  if (limit.algorithm === Algorithm.tokenBucket) {
    return { ...limit, windowSeconds: limit.windowSeconds * processCount, burst };
  }
  return { ...limit, amount: cut(limit.amount, processCount), burst };
}

/** A share is at least 1, so that no process refuses everything; a limit of 0 stays 0. */
function cut(amount: number, processCount: number): number {
  return amount === 0 ? 0 : Math.max(1, divideDown(amount, processCount));
}
