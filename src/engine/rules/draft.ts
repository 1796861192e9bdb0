// Rules between reading and building: typed, with defaults not applied yet, and with their places, so that checks of the whole domain
// can name the line. Text is one-byte.

import type { Algorithm, OnStoreFailure, Sync, Unit } from "../domain/limit.ts";
import type { Calendar } from "./calendar.ts";
import type { PriorityDraft } from "./read-priority.ts";
import type { Pattern, RuleSettings } from "./rule-set.ts";
import type { Place } from "./source.ts";

/** A name as written, with its place. */
export interface PlacedName {
  readonly name: string;
  readonly at: Place;
}

/** One limit. */
export interface LimitDraft {
  readonly at: Place;
  /** As written; empty if it has none. */
  readonly name: string;
  readonly nameAt: Place;
  readonly algorithm: Algorithm;
  /** True if envoyproxy/ratelimit would read the same limit: `requests_per_unit` and `unit`, without algorithm, window, sync or priority. */
  readonly isPlain: boolean;
  /** True for `concurrent`, which limits live holds. */
  readonly isConcurrent: boolean;
  readonly amount: number;
  readonly burst: number;
  readonly windowSeconds: number;
  /** The window in bucket keys: seconds, and 1 for a rate in tokens per second. */
  readonly keySeconds: number;
  /** The calendar of a calendar window; undefined for other algorithms. */
  readonly calendar: Calendar | undefined;
  readonly debtMax: number;
  /** Place of `debt_max`; undefined if it is not written. */
  readonly debtMaxAt: Place | undefined;
  readonly unit: Unit;
  readonly retryAfterJitter: number | undefined;
  readonly onStoreFailure: OnStoreFailure | undefined;
  readonly sync: Sync;
  readonly syncAt: Place;
  readonly replaces: readonly PlacedName[];
  readonly priority: PriorityDraft | undefined;
}

/** The limits of a rule. */
export interface LimitsDraft {
  /** True if the rule has a limit or is unlimited. */
  readonly hasLimit: boolean;
  readonly isUnlimited: boolean;
  /** Name and `replaces` of an unlimited rule; else empty. */
  readonly unlimitedName: string;
  readonly unlimitedReplaces: readonly PlacedName[];
  /** `requests_per_unit` as written on an unlimited rule; else 0. */
  readonly unlimitedRequests: number;
  readonly limits: readonly LimitDraft[];
  /** True if the limits come from a list, so that each needs a label. */
  readonly isList: boolean;
}

/** One pattern of a rule; `one_of` has several. */
export interface PatternDraft {
  readonly pattern: Pattern;
  /** The pattern in paths and shared bucket keys; empty for `any`. */
  readonly text: string;
  readonly at: Place;
  /** True for ranges of addresses that many callers of a private network may have. */
  readonly coversPrivateNetwork?: boolean;
}

/** The limits among which an entry chooses (`tier`). */
export interface TierDraft {
  /** Key of the entry, one-byte. */
  readonly entry: string;
  /** The limits of each tier, by the value of the entry. */
  readonly byName: ReadonlyMap<string, LimitsDraft>;
}

export interface RuleDraft extends RuleSettings {
  readonly keyAt: Place;
  readonly patterns: readonly PatternDraft[];
  /** With a tier, the limits of callers whose entry names none. */
  readonly limits: LimitsDraft;
  /** Name of `limits` in the file's `limits`; empty if the rule itself writes them. */
  readonly limitsName: string;
  readonly tier: TierDraft | undefined;
  readonly onStoreFailure: OnStoreFailure | undefined;
  /** `hash_values` as written; it applies to all rules below, too. */
  readonly hashesValues: boolean;
  readonly children: RuleDraft[];
}

export interface GlobalLimitDraft {
  readonly limit: LimitDraft;
  readonly countsHits: boolean;
}

/** All limits that the rule may apply. */
export function limitsOfDraft({ limits, tier }: RuleDraft): readonly LimitsDraft[] {
  return tier === undefined ? [limits] : [...tier.byName.values()];
}
