// What a call asks of a store: one Take per limit. All takes of a call form a TakeGroup, which is decided as a whole.
// Both are pooled; the store writes its answer into them.

import type { StoreError } from "../../base/errors.ts";
import { KeyBytes, Keyed } from "./key-bytes.ts";
import { Algorithm, type Limit } from "./limit.ts";
import type { LimitStats } from "./stats.ts";

/**
 * How a descriptor that is over its limit affects the call: an ordinary one refuses it, quota ones refuse it only if
 * all of them are over, a shadow one never does.
 */
export const Kind = { ordinary: 0, quota: 1, shadow: 2 } as const;
export type Kind = (typeof Kind)[keyof typeof Kind];

/**
 * What a take does with its cost. `peek` asks without paying. `refund` gives back. `postPaid` pays even without room.
 * `denied` is known to be over before a store is asked, and no store touches it. `settle` ends the hold `holdId`; its
 * cost is what was used. `blocked` refuses a caller who is blocked at run time; a group has either nothing else or no
 * such take, and no store gets it. `giveBack` undoes the payment that an earlier call made at `paidAtUs`, alone in its
 * group (stores/batching/give-backs.ts). `guarantee` pays a caller's guarantee if that covers the next take
 * (guarantee.ts).
 */
export const Mode = {
  pay: 0,
  peek: 1,
  refund: 2,
  postPaid: 3,
  denied: 4,
  settle: 5,
  giveBack: 6,
  blocked: 7,
  guarantee: 8,
} as const;
export type Mode = (typeof Mode)[keyof typeof Mode];

/**
 * The result of one take. `unanswered`: the store has given no answer. `over`: there is no room now. `never`: the cost
 * is larger than the limit can ever hold.
 */
export const Outcome = { unanswered: 0, room: 1, over: 2, never: 3 } as const;
export type Outcome = (typeof Outcome)[keyof typeof Outcome];

/**
 * The result of a whole group. `failed`: no answer refuses the group, and at least one take is unanswered; the answered
 * takes are valid, paid or not. engine/limiter/failure-policy.ts then decides the call.
 */
export const Verdict = { pending: 0, allowed: 1, refused: 2, failed: 3 } as const;
export type Verdict = (typeof Verdict)[keyof typeof Verdict];

/**
 * What a settlement found if there was no live hold: none (never opened, or expired), or one that was settled before.
 */
export const HoldFound = { none: -1, settled: -2 } as const;

/** Where an answer came from. `local`: from this process without the store. */
export const Source = { store: 0, denialMemory: 1, lease: 2, local: 3 } as const;
export type Source = (typeof Source)[keyof typeof Source];

/** The `descriptor` of a take on the domain's global limit. */
export const GLOBAL_DESCRIPTOR = -1;

/**
 * One limit's part of a call, with the key of its bucket: first what is asked, which only the limiter writes, then the
 * answer.
 */
export class Take extends Keyed {
  limit: Limit;
  /**
   * Index of the descriptor in the request; GLOBAL_DESCRIPTOR for the global limit. Takes of one descriptor are
   * adjacent.
   */
  descriptor = 0;
  kind: Kind = Kind.ordinary;
  mode: Mode = Mode.pay;
  /**
   * 1 to COST_ABOVE_ALL; 0 too for a settlement; any whole number for a limit that counts hits. A peek asks about this
   * cost.
   */
  cost = 1;
  /**
   * If the limit has holds: id of the hold that a payment opens or a settlement ends. One-byte; empty if nobody can
   * settle it.
   */
  holdId = "";
  /** Stats that count this take: the limit's own, or those of one value (`value_to_metric`, `detailed_metric`). */
  stats: LimitStats;

  // The answer. copyAnswer copies it.
  outcome: Outcome = Outcome.unanswered;
  /** True if the limit's `on_store_failure` (deny or local) decided the take in place of the store. */
  byPolicy = false;
  /** True if this take's cost was paid (or refunded). */
  paid = false;
  /** Cost that would still pass after the group was decided; never negative. */
  remaining = 0;
  /** Microseconds until the same cost could pass; 0 with room, and 0 if it never can. At most WAIT_US_MAX. */
  waitUs = 0;
  /**
   * Microseconds until the bucket is full; 0 if it is. At most WAIT_US_MAX. If the host's clock defines the window,
   * known from the start.
   */
  resetUs = 0;
  /**
   * The store's time of payment in microseconds, 0 if nothing was paid. Needed to give the payment back, where it is
   * asked.
   */
  paidAtUs = 0;
  /**
   * Post-paid hits that were not recorded, because the state can't hold more (`debtMax`, or AMOUNT_MAX in a window).
   */
  cappedHits = 0;
  /** Mode.settle: the cost that was held, or a HoldFound. */
  held = 0;
  /** Mode.pay on a limit with holds: true if the payment opened a hold. */
  openedHold = false;
  /** Mode.peek on a limit with holds: number of live holds of the bucket. */
  liveHolds = 0;
  /** A counter's count after this take (engine/counters); exact below 2^53. */
  count = 0;

  constructor(limit: Limit, keys: KeyBytes) {
    super(keys);
    this.limit = limit;
    this.stats = limit.stats;
  }
}

/** True if the take found no room for its cost. An unanswered take is not over. */
export function isOver(take: Take): boolean {
  return take.outcome >= Outcome.over;
}

/**
 * True if the take can refuse its call: a payment, a peek, a denied or a blocked one. Refunds, reports and settlements
 * never do.
 */
export function canRefuseCall({ mode }: Take): boolean {
  return mode === Mode.pay || mode === Mode.peek || mode === Mode.denied || mode === Mode.blocked;
}

/**
 * Weight of a sliding log; other limits weigh 1. A take on a log reads and writes up to 16 KB
 * (bench/store/full-logs.mjs).
 */
export const LOG_WEIGHT = 12;
/**
 * Weight of a limit with holds: a take reads and writes a set, the lows and a hold in addition to the bucket
 * (bench/store/holds.mjs).
 */
export const HOLD_WEIGHT = 4;
/**
 * Largest weight of one call: a limit for each of 256 descriptors and the global limit, or 21 sliding logs, or 64
 * limits with holds. A call of this weight keeps Redis busy for at most two milliseconds (bench/store/full-logs.mjs).
 */
export const GROUP_WEIGHT_MAX = 257;

/** Weight of `takes` takes, of which `takesOnLogs` are on sliding logs and `takesWithHolds` on limits with holds. */
export function weightOf(takes: number, takesOnLogs: number, takesWithHolds: number): number {
  return takes + takesOnLogs * (LOG_WEIGHT - 1) + takesWithHolds * (HOLD_WEIGHT - 1);
}

/** The takes of one call, which are decided together: all payments are kept or none. */
export class TakeGroup {
  readonly takes: Take[] = [];
  /** Buffer for the keys of the takes. */
  readonly keys = new KeyBytes();
  size = 0;
  /** Number of takes on sliding logs. */
  takesOnLogs = 0;
  /** Number of takes whose limits have holds. */
  takesWithHolds = 0;
  /** Grows whenever the group returns to its pool. A late answer writes only if the generation is still the same. */
  generation = 0;
  /** After this time nobody waits for the answer, in microseconds of the process's Clock. */
  deadlineUs = Number.POSITIVE_INFINITY;
  /** True if a quota descriptor passes without a take. Quota descriptors then can't refuse the call. */
  hasSpareQuota = false;
  /** True if takes of callers' guarantees are among them (guarantee.ts). */
  hasGuarantees = false;

  verdict: Verdict = Verdict.pending;
  /** Why takes are unanswered, if the verdict is failed. */
  failure: StoreError | undefined = undefined;
  source: Source = Source.store;

  /**
   * Adds a take without an answer; the caller fills in the rest. `held`, `liveHolds` and `count` keep old values until
   * a store writes them.
   */
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
    take.openedHold = false;
    take.holdId = "";
    return take;
  }

  /** Weight of the group: at most GROUP_WEIGHT_MAX when a store is asked. */
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
    this.hasGuarantees = false;
    this.verdict = Verdict.pending;
    this.failure = undefined;
    this.source = Source.store;
  }
}

/** Adds a copy of the take's question to `into`. The key is copied as text. */
export function copyQuestion(take: Take, into: TakeGroup): Take {
  const copy = into.add(take.limit);
  copy.bucketKey = take.bucketKey;
  copy.keyHash = take.keyHash;
  copy.descriptor = take.descriptor;
  copy.kind = take.kind;
  copy.mode = take.mode;
  copy.cost = take.cost;
  copy.resetUs = take.resetUs;
  copy.paidAtUs = take.paidAtUs;
  copy.holdId = take.holdId;
  copy.stats = take.stats;
  return copy;
}

/** Copies the store's answer from one take to another. */
export function copyAnswer(from: Take, to: Take): void {
  to.outcome = from.outcome;
  to.byPolicy = from.byPolicy;
  to.paid = from.paid;
  to.remaining = from.remaining;
  to.waitUs = from.waitUs;
  to.resetUs = from.resetUs;
  to.paidAtUs = from.paidAtUs;
  to.cappedHits = from.cappedHits;
  to.held = from.held;
  to.openedHold = from.openedHold;
  to.liveHolds = from.liveHolds;
  to.count = from.count;
}
