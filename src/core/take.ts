// What a call asks of a store: one Take per limit, gathered in a TakeGroup that is settled as one.
// Both are pooled; a store writes its answer into them.

import type { StoreError } from "./errors.ts";
import { KeyBytes, Keyed } from "./key-bytes.ts";
import { Algorithm, type Limit } from "./limit.ts";
import type { LimitStats } from "./limit-stats.ts";

/** Whether a descriptor can refuse the call: ordinary alone, quota only together with all others, shadow never. */
export const Kind = { ordinary: 0, quota: 1, shadow: 2 } as const;
export type Kind = (typeof Kind)[keyof typeof Kind];

/**
 * What a take does with its cost. `charge` is the reference service's way with a counter: paid in any case, for itself
 * alone, and over if the count then exceeds the limit; its cost may be 0 and larger than COST_ABOVE_ALL. `denied` is a
 * charge that the local cache has answered: over, and no store touches it. `settle` ends the hold `holdId`: its cost is what
 * was used in the end.
 */
export const Mode = { pay: 0, peek: 1, refund: 2, postPaid: 3, charge: 4, denied: 5, settle: 6 } as const;
export type Mode = (typeof Mode)[keyof typeof Mode];

/** True for the modes of counters. */
export function isOfCounter(mode: Mode): boolean {
  return mode === Mode.charge || mode === Mode.denied;
}

/**
 * What is known of one take. `over`: not now; `never`: the cost is larger than the limit can ever hold. `unanswered`: the
 * store has said nothing of it.
 */
export const Outcome = { unanswered: 0, room: 1, over: 2, never: 3 } as const;
export type Outcome = (typeof Outcome)[keyof typeof Outcome];

/**
 * What became of a whole group. `failed`: no answer refuses it, and at least one of its takes is unanswered; the others
 * stand as they say, paid or not. Who asked decides then (limiter/failure-policy.ts).
 */
export const Verdict = { pending: 0, allowed: 1, refused: 2, failed: 3 } as const;
export type Verdict = (typeof Verdict)[keyof typeof Verdict];

/** What a settlement found in place of a live hold: none (never opened, or expired), or one that is settled already. */
export const HoldFound = { none: -1, settled: -2 } as const;

/** Where an answer came from. */
export const Source = { store: 0, denialMemory: 1, leaseOrPeriodic: 2, local: 3 } as const;
export type Source = (typeof Source)[keyof typeof Source];

/** The `descriptor` of a take on the domain's global limit. */
export const GLOBAL_DESCRIPTOR = -1;

/**
 * One limit's part of a call. The caller fills the first block, the store the second. Its key is what a store keeps the
 * bucket under.
 */
export class Take extends Keyed {
  limit: Limit;
  /** Index of the descriptor in the request, GLOBAL_DESCRIPTOR for the global limit. Takes of one descriptor are adjacent. */
  descriptor = 0;
  kind: Kind = Kind.ordinary;
  mode: Mode = Mode.pay;
  /** 1 to COST_ABOVE_ALL; the cost asked about when `mode` is peek; of a settlement 0, too. */
  cost = 1;
  /**
   * Where the limit has holds (Limit.holdSeconds): which one a payment opens or a settlement ends. One-byte; empty for a
   * payment that nobody can settle.
   */
  holdId = "";
  /** Of a counter: seconds until its window ends, 1 to the window's length; 0 for all other limits. */
  windowSecondsLeft = 0;
  /** Where this take is counted: the limit's own stats, or those of one value (`value_to_metric`, `detailed_metric`). */
  stats: LimitStats;

  outcome: Outcome = Outcome.unanswered;
  /** True if not the store decided it but the limit's `on_store_failure`: deny or local. */
  byPolicy = false;
  /** True if this take's cost was paid (or refunded). */
  paid = false;
  /** Cost that would still pass after the group was settled; never negative. */
  remaining = 0;
  /** Microseconds until the same cost could pass; 0 with room, and 0 if it never can. At most WAIT_US_MAX. */
  waitUs = 0;
  /** Microseconds until the bucket is as new; 0 if it is. At most WAIT_US_MAX. */
  resetUs = 0;
  /** Receipt: the store's time of payment in microseconds, 0 if nothing was paid. */
  paidAtUs = 0;
  /** Post-paid hits that exceeded what the state can hold (`debtMax`, or AMOUNT_MAX in a window) and were not recorded. */
  cappedHits = 0;
  /**
   * Mode.charge: the count after this take; exact below 2^53. Mode.settle: what was held, or a HoldFound. Where the limit has
   * holds, Mode.pay: 1 if the payment opened one, else 0; Mode.peek: live holds of the bucket.
   */
  counted = 0;

  constructor(limit: Limit, keys: KeyBytes) {
    super(keys);
    this.limit = limit;
    this.stats = limit.stats;
  }
}

/** What a sliding log weighs, in other limits: a take on it may have some 250 entries to read, to drop or to walk over. */
export const LOG_WEIGHT = 32;
/** What a limit with holds weighs, in other limits: it has a set, lows and a hold of its own to read and to write (bench/store/holds.mjs). */
export const HOLD_WEIGHT = 4;
/**
 * The most that the limits of one call weigh: one for each of 256 descriptors and the global one, or eight sliding logs, or 64
 * with holds. As many hold Redis for two milliseconds (bench/store/full-logs.mjs).
 */
export const GROUP_WEIGHT_MAX = 257;

/** What takes weigh of which so many are on sliding logs, and so many on limits with holds. */
export function weightOf(takes: number, takesOnLogs: number, takesWithHolds: number): number {
  return takes + takesOnLogs * (LOG_WEIGHT - 1) + takesWithHolds * (HOLD_WEIGHT - 1);
}

/** The takes of one call, settled together (docs/architecture.md: all are paid or none). */
export class TakeGroup {
  readonly takes: Take[] = [];
  /** Where the keys of the takes are written. */
  readonly keys = new KeyBytes();
  size = 0;
  /** Number of takes on sliding logs. */
  takesOnLogs = 0;
  /** Number of takes whose limits have holds. */
  takesWithHolds = 0;
  /** Changes whenever the group returns to its pool; a late answer compares it before it writes. */
  generation = 0;
  /** When the answer is no longer of use, in microseconds of the process's Clock. */
  deadlineUs = Number.POSITIVE_INFINITY;
  /** True if a quota descriptor without a limit passes, so that quota descriptors alone can't refuse the call. */
  hasSpareQuota = false;
  /** True if any take is a counter's. */
  hasCounters = false;
  /** True: when a counter is over, only those that are over are charged (STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT). */
  stopsAtOver = false;

  verdict: Verdict = Verdict.pending;
  /** Why takes are unanswered, if the verdict is failed. */
  failure: StoreError | undefined = undefined;
  source: Source = Source.store;

  /** Adds a take with its answer cleared; the caller fills in the rest. */
  add(limit: Limit): Take {
    let take = this.takes[this.size];
    if (take === undefined) {
      take = new Take(limit, this.keys);
      this.takes[this.size] = take;
    }
    this.size++;
    if (limit.algorithm === Algorithm.slidingLog) this.takesOnLogs++;
    if (limit.holdSeconds > 0) this.takesWithHolds++;
    take.keys = this.keys;
    take.bucketKey = "";
    take.limit = limit;
    take.stats = limit.stats;
    take.outcome = Outcome.unanswered;
    take.byPolicy = false;
    take.paid = false;
    take.remaining = 0;
    take.waitUs = 0;
    take.resetUs = 0;
    take.paidAtUs = 0;
    take.cappedHits = 0;
    take.windowSecondsLeft = 0;
    take.holdId = "";
    return take;
  }

  /** What its limits weigh: at most GROUP_WEIGHT_MAX in a call that a store is asked about. */
  get weight(): number {
    return weightOf(this.size, this.takesOnLogs, this.takesWithHolds);
  }

  /** Empties the group for its next call. */
  reset(): void {
    this.size = 0;
    this.takesOnLogs = 0;
    this.takesWithHolds = 0;
    this.keys.clear();
    this.generation++;
    this.deadlineUs = Number.POSITIVE_INFINITY;
    this.hasSpareQuota = false;
    this.hasCounters = false;
    this.stopsAtOver = false;
    this.verdict = Verdict.pending;
    this.failure = undefined;
    this.source = Source.store;
  }
}

/** Adds a take that asks the same. */
export function copyQuestion(take: Take, into: TakeGroup): Take {
  const copy = into.add(take.limit);
  copy.bucketKey = take.bucketKey;
  copy.keyHash = take.keyHash;
  copy.descriptor = take.descriptor;
  copy.kind = take.kind;
  copy.mode = take.mode;
  copy.cost = take.cost;
  copy.windowSecondsLeft = take.windowSecondsLeft;
  copy.holdId = take.holdId;
  copy.stats = take.stats;
  return copy;
}

/** Copies everything that a store writes into a take. */
export function copyAnswer(from: Take, to: Take): void {
  to.outcome = from.outcome;
  to.byPolicy = from.byPolicy;
  to.paid = from.paid;
  to.remaining = from.remaining;
  to.waitUs = from.waitUs;
  to.resetUs = from.resetUs;
  to.paidAtUs = from.paidAtUs;
  to.cappedHits = from.cappedHits;
  to.counted = from.counted;
}
