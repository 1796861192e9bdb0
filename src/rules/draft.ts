// Rules between reading and building: typed, with defaults still open and with their places, so that checks which
// need the whole domain can name the line. Text is one-byte.

import type { Algorithm, OnStoreFailure, Sync, Unit } from "../core/limit.ts";
import type { Kind } from "../core/take.ts";
import type { Calendar } from "./calendar.ts";
import type { PriorityDraft } from "./read-priority.ts";
import type { CostEntry, HoldEntries, Pattern } from "./rule-set.ts";
import type { Place } from "./source.ts";

/** A name as written, and where. */
export interface PlacedName {
  readonly name: string;
  readonly at: Place;
}

/** The numbers of one limit. */
export interface LimitDraft {
  readonly at: Place;
  /** As written; empty if it has none. */
  readonly name: string;
  readonly nameAt: Place;
  readonly algorithm: Algorithm;
  /** True if it is written as envoyproxy/ratelimit reads it too: `requests_per_unit` and `unit`, no algorithm, no window. */
  readonly isPlain: boolean;
  /** True for a limit of holds at once (`concurrent`). */
  readonly isConcurrent: boolean;
  readonly amount: number;
  readonly burst: number;
  readonly windowSeconds: number;
  /** What stands for the window in bucket keys. */
  readonly keySeconds: number;
  /** Of a calendar window, and of none else. */
  readonly calendar: Calendar | undefined;
  readonly debtMax: number;
  /** Where `debt_max` stands, if it does. */
  readonly debtMaxAt: Place | undefined;
  readonly unit: Unit;
  readonly retryAfterJitter: number | undefined;
  readonly onStoreFailure: OnStoreFailure | undefined;
  readonly sync: Sync;
  readonly syncAt: Place;
  readonly replaces: readonly PlacedName[];
  readonly priority: PriorityDraft | undefined;
}

/** What the limits of a rule come to. */
export interface LimitsDraft {
  /** True if the rule has a limit at all, unlimited included. */
  readonly hasLimit: boolean;
  readonly isUnlimited: boolean;
  /** Name and replaces of the unlimited rule. */
  readonly unlimitedName: string;
  readonly unlimitedReplaces: readonly PlacedName[];
  /** `requests_per_unit` as written on the unlimited rule; else 0. */
  readonly unlimitedRequests: number;
  readonly limits: readonly LimitDraft[];
  /** True if they come from `rate_limits`, whose limits need a label each. */
  readonly isList: boolean;
}

/** One way in which a rule accepts values; `one_of` has many. */
export interface PatternDraft {
  readonly pattern: Pattern;
  /** What stands for the value in paths and shared keys; empty for `any`. */
  readonly text: string;
  readonly at: Place;
}

/** Limits that a rule chooses among by an entry. */
export interface TierDraft {
  /** Key of the entry, one-byte. */
  readonly entry: string;
  readonly at: Place;
  /** By the value of the entry. */
  readonly byName: ReadonlyMap<string, LimitsDraft>;
}

export interface RuleDraft {
  readonly at: Place;
  readonly key: string;
  readonly keyAt: Place;
  readonly patterns: readonly PatternDraft[];
  /** Under a tier those of callers whose entry names none. */
  readonly limits: LimitsDraft;
  /** Their name in the file's `limits`; empty for those that the rule writes itself. */
  readonly limitsName: string;
  readonly tier: TierDraft | undefined;
  readonly kind: Kind;
  /** `quota_mode` as written, also beside shadow_mode. */
  readonly isQuota: boolean;
  readonly isPostPaid: boolean;
  /** See Rule. */
  readonly chargesGivenHits: boolean;
  readonly cost: CostEntry | undefined;
  readonly hold: HoldEntries | undefined;
  readonly onStoreFailure: OnStoreFailure | undefined;
  readonly sharesThreshold: boolean;
  readonly hashesValues: boolean;
  readonly detailedMetric: boolean;
  readonly valueToMetric: boolean;
  readonly metadata: Readonly<Record<string, unknown>> | undefined;
  readonly children: readonly RuleDraft[];
}

export interface GlobalLimitDraft {
  readonly limit: LimitDraft;
  readonly countsHits: boolean;
}

/** One file's part of a domain. */
export interface FileDraft {
  readonly file: string;
  /** True for a resource; see SourceFile. */
  readonly isResource: boolean;
  /** See DomainRules. */
  readonly chargesGivenHits: boolean;
  readonly domain: string;
  readonly domainAt: Place;
  readonly globalLimit: GlobalLimitDraft | undefined;
  readonly rules: readonly RuleDraft[];
}

/** All limits that the rule may apply. */
export function limitsOfDraft({ limits, tier }: RuleDraft): readonly LimitsDraft[] {
  return tier === undefined ? [limits] : [...tier.byName.values()];
}
