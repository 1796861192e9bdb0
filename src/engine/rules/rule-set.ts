// The immutable result of compiling rule files, for match.ts and the limiter. All text that is compared with requests
// is one-byte (engine/domain/request.ts).

import type { Keyed } from "../domain/key-bytes.ts";
import type { Limit } from "../domain/limit.ts";
import type { Descriptor } from "../domain/request.ts";
import type { DomainStats } from "../domain/stats.ts";
import type { Kind } from "../domain/take.ts";
import type { Place, Problem } from "./source.ts";

/** The entry that carries the cost of one hit, and the parts in which callers count. */
export interface CostEntry {
  /** Key of the entry, one-byte. The whole domain skips it in matching and keys. Undefined: a hit is one part. */
  readonly entry: string | undefined;
  /** Cost of one hit when the entry is absent, negative, zero or not a number, in parts. 1 to AMOUNT_MAX x per. */
  readonly default: number;
  /** Bound in parts: larger values count as this. 1 to AMOUNT_MAX x per. */
  readonly max: number;
  /** How many of the callers' parts make one unit of the limits. 1 to COST_PER_MAX. */
  readonly per: number;
}

/** A rule's `hold`, with the entries that speak of holds. The whole domain skips these entries in matching and keys. */
export interface HoldEntries {
  /** Key of the entry that names the hold, one-byte. */
  readonly idEntry: string;
  /** Key of the entry that marks the descriptor that settles, one-byte. */
  readonly settleEntry: string;
  /** The value that the entry must have; undefined: any value. */
  readonly settleValue: string | undefined;
  /** The cost of a payment; undefined: 1 per hit. */
  readonly estimate: CostEntry | undefined;
  /** How long a payment waits for its settlement, in seconds. */
  readonly seconds: number;
}

/** A rule's `hand_out`: its bucket may be handed out to Envoys. */
export interface HandOut {
  /** After this time without a request, an Envoy's part goes back. */
  readonly idleSeconds: number;
  /** The part of the limit that each Envoy has at least, in percent. */
  readonly floorPercent: number;
}

/** How a rule accepts the value of an entry. The entry's key must equal the rule's, except for `compositeWildcard`. */
export type Pattern =
  | { readonly kind: "exact"; readonly value: string }
  | { readonly kind: "any" }
  /** Any text may be between two pieces. A prefix or a suffix is a piece and an empty one. */
  | { readonly kind: "wildcard" | "prefix" | "suffix"; readonly pieces: readonly string[] }
  /** For a key with a star: the pieces are compared with `key_value`, as in the reference service. */
  | { readonly kind: "compositeWildcard"; readonly pieces: readonly string[] }
  /** `test` takes one-byte text, runs in linear time and tests only the beginning of long values (schema.ts). */
  | { readonly kind: "regex"; readonly source: string; readonly test: (text: string) => boolean }
  | { readonly kind: "cidr"; readonly ranges: readonly string[]; readonly test: (text: string) => boolean };

/** The rule under each tier; an entry of the descriptor names the tier. */
export interface Tiers {
  /** Key of the entry, one-byte. The whole domain skips it in matching and keys. */
  readonly entry: string;
  /** The rule by the value of the entry. These rules differ only in their limits. */
  readonly byName: ReadonlyMap<string, Rule>;
}

/** The settings of a rule that are the same for all its patterns and tiers. */
export interface RuleSettings {
  /** Key as written, one-byte. */
  readonly key: string;
  /** Place of the rule in its file or resource. */
  readonly at: Place;
  /** Shadow if the rule is in shadow mode, else quota if it is in quota mode, else ordinary. */
  readonly kind: Kind;
  /** `quota_mode` as written. A shadow rule with it is a quota descriptor that always passes. */
  readonly isQuota: boolean;
  /** True: hits are reported after the fact and charged in any case (`post_paid`). */
  readonly isPostPaid: boolean;
  /**
   * `charge_given_hits`; true for rules of a control plane without `post_paid` (its messages can't say whether hits are
   * reported after the fact). Hits of a descriptor's own are then charged in any case, and the call is refused if there
   * was no room for them.
   */
  readonly chargesGivenHits: boolean;
  readonly cost: CostEntry | undefined;
  readonly hold: HoldEntries | undefined;
  readonly handOut: HandOut | undefined;
  /** True: all values that this rule matches share one bucket, even if a deeper rule has the limit. */
  readonly sharesThreshold: boolean;
  readonly detailedMetric: boolean;
  readonly valueToMetric: boolean;
  /** True: nothing is wrong if no call matches the rule for long (`rarely`). */
  readonly isRare: boolean;
  /** Sent as dynamic metadata with passing descriptors; ordinary text. Undefined if the rule has none. */
  readonly metadata: Readonly<Record<string, unknown>> | undefined;
}

/** A node of a rules file. With tiers: the rule for callers whose entry names none. */
export interface Rule extends RuleSettings {
  readonly pattern: Pattern;
  /** The pattern as text: `value`, `foo*`, `prefix:/api`, ... ; empty for `any`. One-byte. */
  readonly patternText: string;
  /** Element of the rule's path: `key`, `key=value`, `key=prefix:...`. One-byte, readable. */
  readonly pathElement: string;
  /** Path from the domain's root, elements joined by `/`. */
  readonly path: string;

  /** True if the rule has a limit or is unlimited. */
  readonly hasLimit: boolean;
  readonly isUnlimited: boolean;
  /** Safe names of the limits that an unlimited rule replaces; else empty. */
  readonly unlimitedReplaces: readonly string[];
  /** `requests_per_unit` of an unlimited rule, which has no effect but is shown as the reference shows it; else 0. */
  readonly unlimitedRequests: number;
  /** The limits in the order of the file; empty if the rule is unlimited or has none. */
  readonly limits: readonly Limit[];
  /** Name of the limits in the file's `limits`, one-byte; empty if the rule itself writes them. */
  readonly limitsName: string;
  /** The rule under each tier; undefined if it has the same limits for all callers. */
  readonly tiers: Tiers | undefined;
  /** True: values of descriptors that match this rule, or a rule below it, are shown as hashes. */
  readonly hashesValues: boolean;
  readonly children: Level | undefined;
}

/** The rules of one level that have the same key. */
export interface KeyRules {
  /** Rules for one value each (`value`, `one_of`). */
  readonly exact: ReadonlyMap<string, Rule>;
  /** Wildcards, prefixes, regexes and the rest, in the order of the file. */
  readonly patterns: readonly Rule[];
  /** The rule without a value, which accepts any value. */
  readonly any: Rule | undefined;
}

/** A rule with a pattern, under COMPATIBILITY_MODE. */
export interface CompositePattern {
  readonly rule: Rule;
  /** The pieces that `key_value` must match; undefined if the rule compares key and value separately. */
  readonly pieces: readonly string[] | undefined;
}

/** Bounds the time of matching (MatchWork). */
export interface PatternWork {
  spendPattern(textLength: number): void;
  spendLong(): void;
}

/** The rules of one level as envoyproxy/ratelimit looks them up. */
export interface CompositeIndex {
  /** The rule that the entry chooses. */
  find(key: string, value: string, work: PatternWork): Rule | undefined;
  /**
   * The text `key_value` of a rule, or its key if it has no value; undefined if it compares key and value separately.
   */
  textOf(rule: Rule): string | undefined;
  /** Rules by `key_value`, or by the key alone if the rule has no value. */
  readonly byText: ReadonlyMap<string, Rule>;
  /** In the order of the file. */
  readonly patterns: readonly CompositePattern[];
}

/** What differs in a domain whose counters are envoyproxy/ratelimit's (reference-rules.ts). */
export interface CounterRules {
  indexOf(rules: readonly Rule[]): CompositeIndex;
  /**
   * The key of a descriptor's counters without the start of the window. `matched` holds the rule of each entry;
   * undefined for an override, whose values are then hashed if `hashesValues`.
   */
  keyOf(
    rules: DomainRules,
    descriptor: Descriptor,
    matched: readonly Rule[] | undefined,
    hashesValues?: boolean,
  ): string;
  /** True if the reference service would lose the metadata of the descriptor's rule. */
  losesMetadata(rules: DomainRules, descriptor: Descriptor): boolean;
}

/** The rules below one node. */
export interface Level {
  readonly byKey: ReadonlyMap<string, KeyRules>;
  /**
   * If a key of this level contains a star: all rules with patterns, in the order of the file, which are tried in place
   * of KeyRules.patterns. Else empty.
   */
  readonly starKeyPatterns: readonly Rule[];
  /** Only under COMPATIBILITY_MODE; matching then uses this index alone. */
  readonly composite: CompositeIndex | undefined;
  /** All rules in the order of the file, for explain. */
  readonly rules: readonly Rule[];
}

/** A domain's limit that every call pays in addition to the limits of its descriptors. */
export interface GlobalLimit {
  readonly limit: Limit;
  /** True: counts the call's hits_addend; false: counts calls. */
  readonly countsHits: boolean;
  /** The key of its bucket. */
  readonly key: Keyed;
}

/** The entries that calls of a domain must have. */
export interface RequiredEntries {
  /** Their keys, one-byte; at least one. */
  readonly keys: readonly string[];
  /** True: calls without one of them are refused. False: they are only counted. */
  readonly refuses: boolean;
}

/** A key whose values are addresses. */
export interface AddressKey {
  /** The value that stands for this one in matching and keys. One-byte. */
  groupOf(value: string): string;
}

/** All rules of one domain. */
export interface DomainRules {
  /** One-byte. */
  readonly domain: string;
  /** Start of every bucket key of this domain, up to the open hash tag (bucket-key.ts). */
  readonly keyPrefix: string;
  /** Undefined unless COMPATIBILITY_MODE is on. */
  readonly counters: CounterRules | undefined;
  readonly root: Level;
  readonly globalLimit: GlobalLimit | undefined;
  readonly required: RequiredEntries | undefined;
  /** The keys whose values are addresses, with how these are grouped (address-groups.ts). */
  readonly addresses: ReadonlyMap<string, AddressKey>;
  /** Keys of entries that matching and bucket keys skip: they carry costs, holds, priorities or tiers. */
  readonly costEntries: ReadonlySet<string>;
  /** The entries that mark a settlement, each with its values; an empty set means any value. */
  readonly settleEntries: ReadonlyMap<string, ReadonlySet<string>>;
  /** True if any limit of the domain replaces another. If not, calls skip that step. */
  readonly hasReplaces: boolean;
  /** True if any rule of the domain hides values. */
  readonly hasHashedValues: boolean;
  /** The keys of these rules, and of those below them. */
  readonly hiddenKeys: ReadonlySet<string>;
  /**
   * As Rule.chargesGivenHits, for overrides that match no rule: true for a control plane's domain without a default
   * `post_paid`.
   */
  readonly chargesGivenHits: boolean;
  /** The keys of rules with `hand_out`, in the order of the rules, by their set (hand-out.ts). */
  readonly handedOut: ReadonlyMap<string, readonly string[]>;
  /** Counters of the domain. The only part of the set that changes. */
  readonly stats: DomainStats;
  /** Limits of this domain's rules and its global limit, for pages and metrics. */
  readonly limits: readonly Limit[];
  /** Files of the domain, relative to the rules directory, and names of its resources. */
  readonly files: readonly string[];
}

/** The rules of all domains. Immutable; a reload makes a new set. */
export interface RuleSet {
  /** 1 for the first set of the process, plus 1 for each reload that took effect. */
  readonly version: number;
  /** SHA-256 over the names and contents of the files (and the set of a control plane), in hex. */
  readonly hash: string;
  readonly domains: ReadonlyMap<string, DomainRules>;
  readonly files: readonly string[];
  readonly warnings: readonly Problem[];
}
