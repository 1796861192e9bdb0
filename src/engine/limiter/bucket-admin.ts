// What operators can do with single buckets, which they name by descriptors: read their state, or reset them. Uses only
// the Store interface, so it works with every store. operate/http/access.ts checks who may ask.

import type { Clock } from "../../base/clock.ts";
import type { StoreError } from "../../base/errors.ts";
import { COST_ABOVE_ALL, divideUp, MICROS_PER_SECOND } from "../../base/units.ts";
import type { Limit } from "../domain/limit.ts";
import { type LimitRequest, oneByteOf, oneByteValueOf, type WrittenEntry } from "../domain/request.ts";
import type { BucketMemory, Store } from "../domain/store.ts";
import { GLOBAL_DESCRIPTOR, Kind, Mode, type Take, TakeGroup, Verdict } from "../domain/take.ts";
import type { RuleSet } from "../rules/rule-set.ts";
import { LimitCall, NO_FINISHER } from "./call.ts";
import { TakeFiller } from "./fill.ts";
import type { FillOptions } from "./question.ts";

/** The buckets asked for. Text is ordinary text, not one-byte. */
export interface AskedBuckets {
  readonly domain: string;
  readonly descriptors: readonly AskedDescriptor[];
  /** True: also the bucket of the domain's global limit. */
  readonly globalLimit: boolean;
}

export interface AskedDescriptor {
  readonly entries: readonly WrittenEntry[];
  /** The override that callers send, if they send one. `unit` is the number of a Unit. */
  readonly override?: {
    readonly amount: number;
    readonly unit: number;
    readonly units?: number;
    readonly algorithm?: string;
  };
}

/** State of a bucket at one moment. Times are whole seconds, rounded up. */
export interface BucketSnapshot {
  /** Cost that would pass now. */
  readonly remaining: number;
  /** Time until a hit of cost 1 would pass; 0 if it would pass now. */
  readonly waitSeconds: number;
  /** Time until the bucket is full; 0 if it is. */
  readonly resetSeconds: number;
  /** Number of live holds. Undefined if the limit has no holds, and in the state after a reset, which ends no holds. */
  readonly liveHolds?: number;
}

/** One bucket that a call with the descriptors would pay. */
export interface BucketReport {
  /** Index of the descriptor; undefined for the global limit. */
  readonly descriptor: number | undefined;
  readonly limit: Limit;
  /** One-byte text. */
  readonly bucketKey: string;
  readonly snapshot: BucketSnapshot;
}

export interface ResetReport extends BucketReport {
  readonly before: BucketSnapshot;
}

interface BucketAdminOptions extends FillOptions {
  readonly store: Store;
  /** Everything in this process that remembers buckets, apart from the store. */
  readonly memories: readonly BucketMemory[];
  readonly clock: Clock;
  readonly rules: () => RuleSet | undefined;
}

/** How long a question to the store may take: operators can wait longer than callers. */
const DEADLINE_US = 2 * MICROS_PER_SECOND;
/** A refund of a counter that is above every count. */
const COUNT_ABOVE_ALL = Number.MAX_SAFE_INTEGER;
/**
 * Refunds of COST_ABOVE_ALL that reset any bucket: a sliding window keeps two counts of up to AMOUNT_MAX, the others
 * one.
 */
const REFUNDS = 2;

/** Reads and resets buckets. */
export class BucketAdmin {
  readonly #options: BucketAdminOptions;
  readonly #filler: TakeFiller;

  constructor(options: BucketAdminOptions) {
    this.#options = options;
    this.#filler = new TakeFiller({ ...options, countsNothing: true });
  }

  /**
   * The state of the buckets that a call with these descriptors would pay, each once; empty if no rule matches. Pays
   * nothing. Throws RequestError for an override with an unknown unit, StoreError if the store does not answer.
   */
  async peek(asked: AskedBuckets): Promise<readonly BucketReport[]> {
    const takes = this.#find(asked);
    return this.#reports(takes, await this.#ask(takes, asPeek, 1));
  }

  /**
   * Resets these buckets and returns their states before and after. This process forgets what it remembers of them;
   * other processes go on with their memory for up to a second, or their sync period (docs/inspect.md). Throws as
   * `peek` does.
   */
  async reset(asked: AskedBuckets): Promise<readonly ResetReport[]> {
    const takes = this.#find(asked);
    const before = this.#reports(takes, await this.#ask(takes, asPeek, 1));
    // Before the reset, so that what is counted in memory is not spent again; after it, so that nothing stale is paid
    // into it.
    this.#forget(takes);
    const group = await this.#ask(takes, asRefund, REFUNDS);
    this.#forget(takes);
    this.#options.counters?.learn(group, this.#options.clock.nowUs());
    return this.#reports(takes, group).map((report, i) => ({
      ...report,
      before: (before[i] as BucketReport).snapshot,
    }));
  }

  /** The takes of a call, one per bucket. */
  #find(asked: AskedBuckets): readonly Take[] {
    const domain = this.#options.rules()?.domains.get(oneByteOf(asked.domain));
    if (domain === undefined) return [];
    const call = new LimitCall(NO_FINISHER);
    fillRequest(call.request, asked);
    this.#filler.fill(call, domain);
    const byKey = new Map<string, Take>();
    for (let i = 0; i < call.group.size; i++) {
      const take = call.group.takes[i] as Take;
      const isAsked = take.descriptor === GLOBAL_DESCRIPTOR ? asked.globalLimit : true;
      if (isAsked && !byKey.has(take.bucketKey)) byKey.set(take.bucketKey, take);
    }
    return [...byKey.values()];
  }

  /** Has the store decide `times` takes per bucket. All are shadow takes, so that none refuses another. */
  async #ask(takes: readonly Take[], shape: (from: Take, to: Take) => void, times: number): Promise<TakeGroup> {
    const { store, clock } = this.#options;
    const group = new TakeGroup();
    for (const from of takes) {
      for (let i = 0; i < times; i++) {
        const take = group.add(from.limit);
        take.bucketKey = from.bucketKey;
        take.keyHash = from.keyHash;
        take.descriptor = group.size;
        take.kind = Kind.shadow;
        take.resetUs = from.resetUs;
        shape(from, take);
      }
    }
    if (group.size === 0) return group;
    group.deadlineUs = clock.nowUs() + DEADLINE_US;
    await new Promise<void>((resolve) => {
      if (store.take(group, { answered: () => resolve() })) resolve();
    });
    if (group.verdict === Verdict.failed) throw group.failure as StoreError;
    return group;
  }

  #forget(takes: readonly Take[]): void {
    for (const { bucketKey } of takes) for (const memory of this.#options.memories) memory.forget(bucketKey);
  }

  // The last take on a bucket has its state after all of them.
  #reports(takes: readonly Take[], group: TakeGroup): readonly BucketReport[] {
    const times = group.size / takes.length;
    return takes.map((take, i) => ({
      descriptor: take.descriptor === GLOBAL_DESCRIPTOR ? undefined : take.descriptor,
      limit: take.limit,
      bucketKey: take.bucketKey,
      snapshot: snapshotOf(group.takes[(i + 1) * times - 1] as Take),
    }));
  }
}

function asPeek(from: Take, to: Take): void {
  // A counter is read by a refund of 0: a charge of 0 would create it.
  to.mode = from.limit.isCounter ? Mode.refund : Mode.peek;
  to.cost = from.limit.isCounter ? 0 : 1;
}

function asRefund(from: Take, to: Take): void {
  to.mode = Mode.refund;
  to.cost = from.limit.isCounter ? COUNT_ABOVE_ALL : COST_ABOVE_ALL;
}

function snapshotOf(take: Take): BucketSnapshot {
  const { limit, remaining } = take;
  const secondsOf = (us: number) => divideUp(us, MICROS_PER_SECOND);
  if (limit.isCounter) {
    const leftSeconds = secondsOf(take.resetUs);
    const resetSeconds = remaining < limit.amount ? leftSeconds : 0;
    return { remaining, waitSeconds: remaining > 0 ? 0 : leftSeconds, resetSeconds };
  }
  return {
    remaining,
    waitSeconds: secondsOf(take.waitUs),
    resetSeconds: secondsOf(take.resetUs),
    ...(limit.holdSeconds > 0 && take.mode === Mode.peek ? { liveHolds: take.liveHolds } : {}),
  };
}

function fillRequest(request: LimitRequest, { domain, descriptors, globalLimit }: AskedBuckets): void {
  request.domain = oneByteOf(domain);
  for (const { entries, override } of descriptors) {
    const descriptor = request.addDescriptor();
    for (const entry of entries) descriptor.addEntry(oneByteOf(entry.key), oneByteValueOf(entry));
    if (override === undefined) continue;
    descriptor.hasOverride = true;
    descriptor.overrideAmount = override.amount;
    descriptor.overrideUnit = override.unit;
    descriptor.overrideUnits = override.units ?? 1;
    descriptor.overrideAlgorithm = override.algorithm ?? "";
  }
  // An empty descriptor matches no rule and asks for admission, which adds the global limit in any case.
  if (globalLimit) request.addDescriptor();
}
