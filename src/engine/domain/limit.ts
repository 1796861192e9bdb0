// A limit as the decision path sees it: plain numbers, made once from a rule file or from an override in a request, and
// what follows from the numbers: what callers are shown, what returns to a bucket, the part of one process.

import { StoreError } from "../../base/errors.ts";
import { divideDown, divideUp } from "../../base/units.ts";
import type { CalendarWindows } from "./calendar-windows.ts";
import { LimitStats } from "./stats.ts";

/** How a limit counts. The number is sent to the stores' scripts. */
export const Algorithm = {
  tokenBucket: 0,
  slidingWindow: 1,
  fixedWindow: 2,
  slidingLog: 3,
  calendarWindow: 5,
} as const;
export type Algorithm = (typeof Algorithm)[keyof typeof Algorithm];

/** All algorithms. */
export const ALGORITHMS: readonly Algorithm[] = Object.values(Algorithm);

/** Names of the algorithms as rule files, keys and metadata write them. */
export const ALGORITHM_NAMES = {
  [Algorithm.tokenBucket]: "token_bucket",
  [Algorithm.slidingWindow]: "sliding_window",
  [Algorithm.fixedWindow]: "fixed_window",
  [Algorithm.slidingLog]: "sliding_log",
  [Algorithm.calendarWindow]: "calendar_window",
} as const satisfies Readonly<Record<Algorithm, string>>;

/** What others than its arithmetic have to know of an algorithm. */
interface AlgorithmTraits {
  /** Its short name in bucket keys. A new form of state needs a new name, so that old state is never misread. */
  readonly key: string;
  /** Whether `algorithm` in a rule file may name it. */
  readonly isWritten: boolean;
  /**
   * Whether everything used comes back at one moment, the end of the window. The bucket's reset time is then that
   * moment.
   */
  readonly endsAtOnce: boolean;
  /** Whether its limits may have holds: payments can be given back exactly. */
  readonly mayHold: boolean;
}

export const ALGORITHM_TRAITS = {
  [Algorithm.tokenBucket]: { key: "tb", isWritten: true, endsAtOnce: false, mayHold: true },
  [Algorithm.slidingWindow]: { key: "sw", isWritten: true, endsAtOnce: false, mayHold: false },
  [Algorithm.fixedWindow]: { key: "fw", isWritten: true, endsAtOnce: true, mayHold: true },
  [Algorithm.slidingLog]: { key: "log", isWritten: true, endsAtOnce: false, mayHold: false },
  // A `window` with a calendar chooses it.
  [Algorithm.calendarWindow]: { key: "cw", isWritten: false, endsAtOnce: true, mayHold: true },
} as const satisfies Readonly<Record<Algorithm, AlgorithmTraits>>;

/** The algorithms that `algorithm` in a rule file may name. */
export const WRITTEN_ALGORITHMS = ALGORITHMS.filter((algorithm) => ALGORITHM_TRAITS[algorithm].isWritten);

/** Their names. */
export const WRITTEN_ALGORITHM_NAMES: readonly string[] = WRITTEN_ALGORITHMS.map(
  (algorithm) => ALGORITHM_NAMES[algorithm],
);

/** Most hits of a sliding log, and most payments that it keeps. */
export const LOG_PAYMENTS_MAX = 1_000;

/** Most live holds of one bucket. lua/holds.lua has the same number. */
export const HOLDS_PER_BUCKET_MAX = 10_000;
/** Most live holds in the memory of a process: 117 bytes each, and at most 260 for each bucket that has some. */
export const HOLDS_IN_MEMORY_MAX = 500_000;

/** The failure of a call for which no hold can be opened. The call has paid nothing. */
export const HOLDS_FULL_ERROR = new StoreError(
  "STORE_HOLDS_FULL",
  `too many unsettled holds: expected at most ${HOLDS_PER_BUCKET_MAX} per bucket, and in memory ${HOLDS_IN_MEMORY_MAX} in all`,
);

/** Units by their numbers in the protocol (`RateLimitResponse.RateLimit.Unit`). */
export const Unit = { unknown: 0, second: 1, minute: 2, hour: 3, day: 4, month: 5, year: 6, week: 7 } as const;
export type Unit = (typeof Unit)[keyof typeof Unit];

/** Seconds of each unit, by its number. A month is 30 days and a year 365, as in the reference service. */
export const UNIT_SECONDS = [0, 1, 60, 3_600, 86_400, 2_592_000, 31_536_000, 604_800] as const;

/** Names of the units in rule files, by number. */
export const UNIT_NAMES = ["unknown", "second", "minute", "hour", "day", "month", "year", "week"] as const;

/** Longest window, in seconds: a year. */
export const WINDOW_SECONDS_MAX = 31_536_000;

/** What happens to a call when the store gives no answer for the limit. */
export const OnStoreFailure = { allow: 0, local: 1, deny: 2, error: 3 } as const;
export type OnStoreFailure = (typeof OnStoreFailure)[keyof typeof OnStoreFailure];

/** Names of the failure policies; the index is the OnStoreFailure. */
export const ON_STORE_FAILURE_NAMES = ["allow", "local", "deny", "error"] as const;

/**
 * How a limit is counted that several processes share: `exact` asks the shared store on every call, `lease` pays in
 * advance (stores/sync/lease.ts). Without effect on the memory store.
 */
export const Sync = { exact: 0, lease: 1 } as const;
export type Sync = (typeof Sync)[keyof typeof Sync];

/** Names in rule files; the index is the Sync. */
export const SYNC_NAMES = ["exact", "lease"] as const;

/** What the limiter decides by, apart from numbers. */
export interface Policy {
  readonly onStoreFailure: OnStoreFailure;
  readonly sync: Sync;
  /** Largest part of the wait that may be added to Retry-After, 0 to 0.5. */
  readonly retryAfterJitter: number;
  /** Names of limits that this one replaces when both are found in one call. */
  readonly replaces: readonly string[];
}

/** What a limit is called. All text is one-byte. */
export interface Names {
  /** Domain, path of the rule, and name if there is one. Unique in the rule set, unchanged by edits of the numbers. */
  readonly id: string;
  /** Path of the rule in its domain, such as `plan=enterprise/api_key`; empty for the global limit. */
  readonly path: string;
  /** The limit's name, only characters that are safe in headers; empty if it has none. */
  readonly name: string;
  /**
   * `name`, else a description of a gateway's keys (engine/rules/gateway-name.ts), else empty. Only for people to read.
   */
  readonly readableName: string;
}

/**
 * One limit: its numbers, which stores count by, and what it shares with its variants: overrides, the part of one
 * process and the limit for low priority have other numbers, but the same policy and mostly the same names and stats.
 * One flat shape serves all algorithms, so that the decision path stays monomorphic. Every number is whole; amounts are
 * at most 2^32 - 1.
 */
export interface Limit {
  readonly algorithm: Algorithm;
  /** Tokens that return, or hits that fit, per window. */
  readonly amount: number;
  /** Most tokens a bucket holds; equal to `amount` for the window algorithms. */
  readonly burst: number;
  /**
   * Length of the window in whole seconds, which is also the length of a tick in microseconds. At most
   * WINDOW_SECONDS_MAX.
   */
  readonly windowSeconds: number;
  /**
   * The windows of a calendar window, whose `windowSeconds` is then only the usual length; undefined for other
   * algorithms.
   */
  readonly calendar: CalendarWindows | undefined;
  /** Largest debt in tokens that post-paid hits may run up (token bucket). From `burst` to AMOUNT_MAX. */
  readonly debtMax: number;
  /** How long a payment waits for its settlement before it is given back, in seconds. 0: payments are final. */
  readonly holdSeconds: number;
  /** True: counts live holds, each as 1, in a token bucket without refill (`concurrent`). Only with holds. */
  readonly isConcurrent: boolean;
  /** True: counted as envoyproxy/ratelimit does, under the same key (COMPATIBILITY_MODE); see engine/counters. */
  readonly isCounter: boolean;
  /** How much less room this has than the whole limit: 0 unless it is `Priority.low` of a limit. */
  readonly reserve: number;
  /** End of the bucket key: algorithm, window and name. */
  readonly keySuffix: string;
  /**
   * The amount, its unit (Unit.unknown if the window is no unit) and the window in seconds (1 for tokens per second) as
   * written.
   */
  readonly shownAmount: number;
  readonly shownUnit: Unit;
  readonly writtenSeconds: number;

  /** What the limit keeps for some calls; undefined: nothing, all calls are alike. */
  readonly priority: Priority | undefined;
  readonly policy: Policy;
  readonly names: Names;
  readonly stats: LimitStats;
  /** Of a caller's guarantee: the shared limit whose whole room it opens (engine/domain/guarantee.ts). */
  readonly covers?: Limit;
}

/**
 * The part of a limit that is kept for calls of high priority: those that an entry of the descriptor marks, or those
 * that their caller's own guarantee covers. Those calls pay the limit itself; all others pay `low`, which is the same
 * bucket with less room.
 */
export interface Priority {
  /**
   * Key of the entry, one-byte: of the priority, or of the caller who has a guarantee. Rules that don't match by it
   * skip it in matching and in keys, throughout the domain; the global limit skips it only for a priority.
   */
  readonly entry: string;
  /** Values of the entry that mean high priority, one-byte. Empty for guarantees. */
  readonly values: ReadonlySet<string>;
  /** Part of the room that is kept, in percent, 1 to 99. */
  readonly percent: number;
  readonly low: Limit;
  /** What each caller has alone; undefined for a priority (engine/domain/guarantee.ts). */
  readonly guarantee: Guarantee | undefined;
}

/** The share of a limit that each of its callers has. */
export interface Guarantee {
  /** The caller's own limit. */
  readonly limit: Limit;
  /** The shared limit, which a covered call pays. */
  readonly whole: Limit;
  /** For how many callers it is asked for, 0 if the rule does not say; and for how many it is kept. */
  readonly callers: number;
  readonly keptFor: number;
}

/** Largest share of the wait that may be added to Retry-After. */
export const RETRY_AFTER_JITTER_MAX = 0.5;

/**
 * The largest possible `remaining`: a token bucket's burst, the amount of any other limit. Headers and `current_limit`
 * show this number, so that callers never see more remaining than the limit.
 */
export function quotaOf(limit: Limit): number {
  return limit.algorithm === Algorithm.tokenBucket ? limit.burst : limit.shownAmount;
}

/** The unit of the quota; Unit.unknown for a token bucket whose burst is not one unit's amount. */
export function quotaUnitOf(limit: Limit): Unit {
  return quotaOf(limit) === limit.shownAmount ? limit.shownUnit : Unit.unknown;
}

/**
 * Seconds of the window in which the quota may pass; 0 for a token bucket, whose burst has none, and for calendar
 * windows.
 */
export function quotaSecondsOf(limit: Limit): number {
  if (limit.calendar !== undefined || quotaOf(limit) !== limit.shownAmount) return 0;
  return limit.algorithm === Algorithm.tokenBucket ? limit.writtenSeconds : limit.windowSeconds;
}

// The refill of a token bucket: `amount` millionths of a token return per tick; a tick is `windowSeconds` microseconds.
// A tick may be 31 seconds long, so refill within a tick counts too. Amounts and times are exact: no part is lost or
// comes early.
//
// Amounts are below 2^32 and windows at most WINDOW_SECONDS_MAX, which is below 2^25. Products that could pass 2^53 are
// computed in two parts. lua/token_bucket.lua has the same arithmetic; sql/take_each.sql multiplies in bigint.

/** Longest wait and longest lifetime of a bucket: ten years, in microseconds. */
export const WAIT_US_MAX = 10 * 365 * 86_400 * 1_000_000;

/** 2^13. A window of 25 bits is split into high x HALF + low; high is below 2^12. */
const HALF = 8_192;

/** Millionths of a token that return in `us` microseconds, which are less than a tick. Rounded down. */
export function refillWithinTick(us: number, { amount, windowSeconds }: Limit): number {
  const product = us * amount;
  if (product <= Number.MAX_SAFE_INTEGER) return divideDown(product, windowSeconds);
  const whole = divideDown(amount, windowSeconds);
  return us * whole + divideDown(us * (amount - whole * windowSeconds), windowSeconds);
}

/**
 * Millionths of a token that return in `us` microseconds, rounded down. Exact below 2^53; larger results are only
 * approximate.
 */
export function refillOf(us: number, limit: Limit): number {
  const ticks = divideDown(us, limit.windowSeconds);
  return ticks * limit.amount + refillWithinTick(us - ticks * limit.windowSeconds, limit);
}

/**
 * Microseconds until `microTokens` millionths of a token have returned, rounded up: the smallest `us` with
 * refillOf(us) >= microTokens. At most WAIT_US_MAX, which is also the result for a limit without refill.
 */
export function usToRefill(microTokens: number, { amount, windowSeconds }: Limit): number {
  if (amount === 0) return WAIT_US_MAX;
  const ticks = divideDown(microTokens, amount);
  if (ticks * windowSeconds >= WAIT_US_MAX) return WAIT_US_MAX;
  const rest = microTokens - ticks * amount;
  return Math.min(WAIT_US_MAX, ticks * windowSeconds + usWithinTick(rest, amount, windowSeconds));
}

/** ceil(rest x windowSeconds / amount), for `rest` below `amount`. */
function usWithinTick(rest: number, amount: number, windowSeconds: number): number {
  const product = rest * windowSeconds;
  if (product <= Number.MAX_SAFE_INTEGER) return divideUp(product, amount);
  const high = divideDown(windowSeconds, HALF);
  const us = divideDown(rest * high, amount);
  return us * HALF + divideUp((rest * high - us * amount) * HALF + rest * (windowSeconds - high * HALF), amount);
}

/**
 * The part that each of `count` processes grants. Amount and burst become floor(n / count), but at least 1 unless they
 * are 0. A token bucket's rate is divided by making its window `count` times as long, which is exact. If that window
 * would exceed WINDOW_SECONDS_MAX, the window becomes the longest multiple that does not, with fewer tokens, at least
 * one.
 */
export function partOfLimit(limit: Limit, count: number): Limit {
  if (count === 1) return limit;
  const burst = cut(limit.burst, count);
  // Burst and reserve together are the part of burst + reserve.
  const reserve = limit.reserve === 0 ? 0 : Math.max(0, cut(limit.burst + limit.reserve, count) - burst);
  if (limit.algorithm !== Algorithm.tokenBucket) return { ...limit, amount: cut(limit.amount, count), burst, reserve };
  const { amount, windowSeconds } = limit;
  const times = Math.min(count, Math.max(1, divideDown(WINDOW_SECONDS_MAX, windowSeconds)));
  // Processes are far fewer than 2^21, so the product stays below 2^53.
  const cutAmount = times === count || amount === 0 ? amount : Math.max(1, divideDown(amount * times, count));
  return { ...limit, amount: cutAmount, windowSeconds: windowSeconds * times, burst, reserve };
}

function cut(amount: number, count: number): number {
  return amount === 0 ? 0 : Math.max(1, divideDown(amount, count));
}

/**
 * The limit of takes that Headgate asks for itself: to warm up, and to find out whether a server is well. A token
 * bucket that lives for a second and refuses nobody, so that each payment writes. No metrics show it.
 */
export const OWN_LIMIT: Limit = {
  algorithm: Algorithm.tokenBucket,
  amount: 1_000_000,
  burst: 1_000_000,
  windowSeconds: 1,
  calendar: undefined,
  debtMax: 1_000_000,
  holdSeconds: 0,
  isConcurrent: false,
  isCounter: false,
  reserve: 0,
  keySuffix: "",
  shownAmount: 1_000_000,
  shownUnit: Unit.second,
  writtenSeconds: 1,
  priority: undefined,
  policy: { onStoreFailure: OnStoreFailure.allow, sync: Sync.exact, retryAfterJitter: 0, replaces: [] },
  names: { id: "own", path: "own", name: "", readableName: "" },
  stats: new LimitStats(),
};
