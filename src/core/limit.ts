// A limit as the decision path sees it: plain numbers, compiled once. Rule files and override requests become this.

import type { CalendarWindows } from "./calendar-windows.ts";
import type { LimitStats } from "./limit-stats.ts";

/** How a limit counts. The number is what goes over the wire to the store's scripts. */
export const Algorithm = {
  tokenBucket: 0,
  slidingWindow: 1,
  fixedWindow: 2,
  slidingLog: 3,
  calendarWindow: 5,
} as const;
export type Algorithm = (typeof Algorithm)[keyof typeof Algorithm];

/** What goes over the wire for a counter (Limit.isCounter) in place of its algorithm. No algorithm may have this number. */
export const COUNTER_NUMBER = 4;

/** All algorithms. */
export const ALGORITHMS: readonly Algorithm[] = Object.values(Algorithm);

/** Those that rule files name; a calendar window is told by its `window`. */
export const WRITTEN_ALGORITHMS = ALGORITHMS.filter((algorithm) => algorithm !== Algorithm.calendarWindow);

/** Names of the algorithms as rule files, keys and metadata write them. */
export const ALGORITHM_NAMES = {
  [Algorithm.tokenBucket]: "token_bucket",
  [Algorithm.slidingWindow]: "sliding_window",
  [Algorithm.fixedWindow]: "fixed_window",
  [Algorithm.slidingLog]: "sliding_log",
  [Algorithm.calendarWindow]: "calendar_window",
} as const satisfies Readonly<Record<Algorithm, string>>;

/** Units of `RateLimitResponse.RateLimit.Unit`; the number is the wire's. */
export const Unit = { unknown: 0, second: 1, minute: 2, hour: 3, day: 4, month: 5, year: 6, week: 7 } as const;
export type Unit = (typeof Unit)[keyof typeof Unit];

/** Seconds of each unit, by its wire number; a month is 30 days and a year 365, as in the reference service. */
export const UNIT_SECONDS = [0, 1, 60, 3_600, 86_400, 2_592_000, 31_536_000, 604_800] as const;

/** Names of the units in rule files, by wire number. */
export const UNIT_NAMES = ["unknown", "second", "minute", "hour", "day", "month", "year", "week"] as const;

/** Longest window, in seconds: a year. */
export const WINDOW_SECONDS_MAX = 31_536_000;

/** What a limit means for its call when the store gives no answer of it. */
export const OnStoreFailure = { allow: 0, local: 1, deny: 2, error: 3 } as const;
export type OnStoreFailure = (typeof OnStoreFailure)[keyof typeof OnStoreFailure];

/** Names of the failure policies; the index is the OnStoreFailure. */
export const ON_STORE_FAILURE_NAMES = ["allow", "local", "deny", "error"] as const;

/**
 * Where a limit that several processes share is counted: at the shared store for every call, or in memory with an
 * exchange now and then (docs/hot-keys.md has the bounds). Of no meaning with the memory store.
 */
export const Sync = { exact: 0, lease: 1, periodic: 2, share: 3 } as const;
export type Sync = (typeof Sync)[keyof typeof Sync];

/** Names of the ways to share; the index is the Sync. */
export const SYNC_NAMES = ["exact", "lease", "periodic", "share"] as const;

/**
 * One limit. One flat shape serves all algorithms, so that the decision path stays monomorphic.
 * Every number is whole; amounts are at most 2^32 - 1.
 */
export interface Limit {
  readonly algorithm: Algorithm;
  /** Tokens that return, or hits that fit, per window. */
  readonly amount: number;
  /** Most tokens a bucket holds; equal to `amount` for the window algorithms. */
  readonly burst: number;
  /** Length of the window in whole seconds, which is also the length of a tick in microseconds. At most WINDOW_SECONDS_MAX. */
  readonly windowSeconds: number;
  /** Where the windows of a calendar window lie; of all others undefined. Its `windowSeconds` is then no more than usual. */
  readonly calendar: CalendarWindows | undefined;
  /** The window as the rule file writes it, in seconds: the unit's, and 1 of tokens per second, whatever their number. */
  readonly writtenSeconds: number;
  /** How long a payment waits for its settlement before it is given back, in seconds; 0: payments are final. */
  readonly holdSeconds: number;
  /** True: counts holds that are under way, each as 1: a token bucket that nothing refills. Only with holds. */
  readonly isConcurrent: boolean;
  /** Of a limit as calls of low priority see it: how much less room that is than the whole limit has. Else 0. */
  readonly reserve: number;
  /** What it keeps for calls of high priority; undefined: nothing, all calls are alike. */
  readonly priority: Priority | undefined;
  /** Most debt in tokens that post-paid hits may run up (token bucket); at least `burst`, at most AMOUNT_MAX. */
  readonly debtMax: number;

  /** The rate as people write it: amount and unit. A window that is no unit shows Unit.unknown. */
  readonly shownAmount: number;
  readonly shownUnit: Unit;
  /** The limit's name; empty if it has none. Only characters that are safe in headers. */
  readonly name: string;
  /** The name; if there is none, words made of a gateway's keys (rules/gateway-name.ts), or nothing. One-byte. For reading alone. */
  readonly readableName: string;
  /** Unique in the rule set, stable over edits of the numbers: domain, path of the rule, and the name if it has one. One-byte. */
  readonly id: string;
  /** Path of the rule in its domain, such as `plan=enterprise/api_key`; empty for the global limit. */
  readonly path: string;
  /** Algorithm, window and name as they end the bucket key. */
  readonly keySuffix: string;
  /** True: kept as a counter of envoyproxy/ratelimit's under its own key (COMPATIBILITY_MODE); see Mode.charge. */
  readonly isCounter: boolean;
  /** Largest share of the wait that is added to Retry-After, 0 to 0.5. */
  readonly retryAfterJitter: number;
  readonly onStoreFailure: OnStoreFailure;
  readonly sync: Sync;
  /** Names of limits that this one replaces when both are found in one call. */
  readonly replaces: readonly string[];
  readonly stats: LimitStats;
}

/** True if all that was used comes back at one moment, the end of the window, which a bucket's reset then tells. */
export function endsAtOnce({ algorithm }: Limit): boolean {
  return algorithm === Algorithm.fixedWindow || algorithm === Algorithm.calendarWindow;
}

/**
 * What a limit keeps for calls that a descriptor's entry says to be of high priority. They pay the limit itself, all others
 * `low`: the same bucket seen with less room.
 */
export interface Priority {
  /** Key of the entry, one-byte. Skipped in matching and in keys throughout the domain. */
  readonly entry: string;
  /** The values of the entry that make a call one of high priority, one-byte. */
  readonly values: ReadonlySet<string>;
  /** Part of the room that is kept, in percent: 1 to 99. */
  readonly percent: number;
  readonly low: Limit;
}

/**
 * What remains is counted down from: of a token bucket its burst, of the others their amount. Callers are shown this, in
 * headers and as `current_limit`, so that what remains is never more than the limit beside it.
 */
export function quotaOf(limit: Limit): number {
  return limit.algorithm === Algorithm.tokenBucket ? limit.burst : limit.shownAmount;
}

/** The unit of the quota; unknown of a bucket that does not fill in one. */
export function quotaUnitOf(limit: Limit): Unit {
  return quotaOf(limit) === limit.shownAmount ? limit.shownUnit : Unit.unknown;
}
