// The immutable outcome of compiling rule files: what match.ts walks and the limiter pays from.
// All text that requests are compared with is one-byte (core/request.ts).

import type { Keyed } from "../core/key-bytes.ts";
import type { Limit } from "../core/limit.ts";
import type { Kind } from "../core/take.ts";
import type { UnmatchedStats } from "../core/unmatched-stats.ts";
import type { Place } from "./place.ts";

/** What a rule says of costs: which entry of the descriptor carries what one hit costs, and in which parts callers count. */
export interface CostEntry {
  /** Key of the entry, one-byte. Skipped in matching and in keys throughout the domain. Undefined: a hit is one part. */
  readonly entry: string | undefined;
  /** Cost of one hit when the entry is absent, negative, zero or not a number, in parts. 1 to AMOUNT_MAX x per. */
  readonly default: number;
  /** Larger values count as this, in parts. 1 to AMOUNT_MAX x per. */
  readonly max: number;
  /** So many parts, in which callers count, make one of what the limits count. 1 to COST_PER_MAX. */
  readonly per: number;
}

/** A rule's `hold`: which entries of the descriptor speak of its holds. All are skipped in matching and in keys throughout the domain. */
export interface HoldEntries {
  /** Key of the entry that names the hold, one-byte. */
  readonly idEntry: string;
  /** Key of the entry that marks the descriptor that settles, one-byte. */
  readonly settleEntry: string;
  /** What the entry must say for that; undefined: anything. */
  readonly settleValue: string | undefined;
  /** What a payment costs; undefined: 1 a hit. */
  readonly estimate: CostEntry | undefined;
  /** How long a payment waits for its settlement. */
  readonly seconds: number;
}

/** How a rule accepts an entry's value (the entry's key is compared first, but for `compositeWildcard`). */
export type Pattern =
  | { readonly kind: "exact"; readonly value: string }
  | { readonly kind: "any" }
  | { readonly kind: "wildcard"; readonly pieces: readonly string[] }
  /** A star in the key: pieces are compared with `key_value`, as the reference service does. */
  | { readonly kind: "compositeWildcard"; readonly pieces: readonly string[] }
  | { readonly kind: "prefix"; readonly prefix: string }
  | { readonly kind: "suffix"; readonly suffix: string }
  /** `test` takes one-byte text, runs in linear time and looks at the beginning of long values only (schema.ts). */
  | { readonly kind: "regex"; readonly source: string; readonly test: (text: string) => boolean }
  | { readonly kind: "cidr"; readonly ranges: readonly string[]; readonly test: (text: string) => boolean };

/** Which of several limits of one rule apply: those that an entry of the descriptor names. */
export interface Tiers {
  /** Key of the entry, one-byte. Skipped in matching and in keys throughout the domain. */
  readonly entry: string;
  /** By the value of the entry: the rule as it is under that tier. All but its limits are the same. */
  readonly byName: ReadonlyMap<string, Rule>;
}

/** A node of a rules file. Under a tier: as it is for callers whose entry names none. */
export interface Rule {
  /** Key as written, one-byte. */
  readonly key: string;
  readonly pattern: Pattern;
  /** What stands for this rule's value: `value`, `foo*`, `prefix:/api`, ... ; empty for `any`. One-byte. */
  readonly patternText: string;
  /** Element of the rule's path: `key`, `key=value`, `key=prefix:...`. One-byte, readable. */
  readonly pathElement: string;
  /** Path from the domain's root, elements joined by `/`. */
  readonly path: string;
  /** Where the rule stands. */
  readonly at: Place;

  /** True if the node has a limit at all, unlimited included. */
  readonly hasLimit: boolean;
  readonly isUnlimited: boolean;
  /** The unlimited rule's own name and replaces; empty otherwise. */
  readonly unlimitedReplaces: readonly string[];
  /** `requests_per_unit` as written on an unlimited rule, which means nothing but is shown as the reference shows it; else 0. */
  readonly unlimitedRequests: number;
  /** Limits to take, in the order of the file; empty if unlimited or if the node has none. */
  readonly limits: readonly Limit[];
  /** Name of the limits in the file's `limits`, one-byte; empty for those that the rule writes itself. */
  readonly limitsName: string;
  /** The same under each tier; undefined if the rule has one set of limits for all. */
  readonly tiers: Tiers | undefined;
  /** Shadow if the rule is in shadow mode, else quota if it is in quota mode, else ordinary. */
  readonly kind: Kind;
  /** `quota_mode` as written, also for a shadow rule (which then is a quota descriptor that always passes). */
  readonly isQuota: boolean;
  readonly isPostPaid: boolean;
  /**
   * True for rules of a control plane, which can't say whether hits are reported after the fact, unless `post_paid` is said for
   * them: hits that a descriptor brings along are charged in any case, and refused if there is no room.
   */
  readonly chargesGivenHits: boolean;
  readonly cost: CostEntry | undefined;
  readonly hold: HoldEntries | undefined;
  /** All values that this rule matches share one bucket (also where a deeper rule holds the limit). */
  readonly sharesThreshold: boolean;
  /** Values of descriptors that lead here are shown as hashes. Set on a rule it holds for all rules below, too. */
  readonly hashesValues: boolean;
  readonly detailedMetric: boolean;
  readonly valueToMetric: boolean;
  /** Returned as dynamic metadata with passing descriptors, in ordinary text; undefined if the rule has none. */
  readonly metadata: Readonly<Record<string, unknown>> | undefined;
  readonly children: Level | undefined;
}

/** The rules below one node that share a key. */
export interface KeyRules {
  /** Rules for one value each (`value`, `one_of`). */
  readonly exact: ReadonlyMap<string, Rule>;
  /** Wildcards, prefixes, regexes and the rest, in the order of the file. */
  readonly patterns: readonly Rule[];
  /** The rule without a value: any value. */
  readonly any: Rule | undefined;
}

/** A rule that is tried on an entry's whole text. */
export interface CompositePattern {
  readonly rule: Rule;
  /** What `key_value` has to be made of; undefined if the rule looks at key and value apart. */
  readonly pieces: readonly string[] | undefined;
}

/** The rules of one level as envoyproxy/ratelimit looks them up (composite.ts). */
export interface CompositeIndex {
  /** By `key_value`, or by the key alone where the rule has no value. */
  readonly byText: ReadonlyMap<string, Rule>;
  /** In the order of the file. */
  readonly patterns: readonly CompositePattern[];
}

/** The rules below one node. */
export interface Level {
  readonly byKey: ReadonlyMap<string, KeyRules>;
  /**
   * Empty unless a key of this level holds a star; then every pattern rule of the level, in the order of the file,
   * to be tried in place of KeyRules.patterns.
   */
  readonly starKeyPatterns: readonly Rule[];
  /** Set under COMPATIBILITY_MODE only; entries are then looked up in it and nowhere else. */
  readonly composite: CompositeIndex | undefined;
  /** All rules in the order of the file, for explain. */
  readonly rules: readonly Rule[];
}

/** A domain's limit that every call pays, beside the per-key ones. */
export interface GlobalLimit {
  readonly limit: Limit;
  /** True: counts the call's hits_addend; false: counts calls. */
  readonly countsHits: boolean;
  /** Of its bucket. */
  readonly key: Keyed;
}

/** All rules of one domain. */
export interface DomainRules {
  /** One-byte. */
  readonly domain: string;
  /** Start of every bucket key of this domain, hash tag opened: see bucket-key.ts. */
  readonly keyPrefix: string;
  /** Start of every counter's key (counter-key.ts); undefined unless COMPATIBILITY_MODE is on. */
  readonly counterPrefix: string | undefined;
  readonly root: Level;
  readonly globalLimit: GlobalLimit | undefined;
  /** Keys of entries that carry costs or speak of holds: matching and bucket keys skip them. */
  readonly costEntries: ReadonlySet<string>;
  /** Those of them that mark a settlement, each with the values that do; with none of them any value does. */
  readonly settleEntries: ReadonlyMap<string, ReadonlySet<string>>;
  /** True if any limit of the domain replaces another: spares the others the work. */
  readonly hasReplaces: boolean;
  /** True if any rule of the domain hides values. */
  readonly hasHashedValues: boolean;
  /** As for its rules, for limits that calls bring along: true if a control plane sent the domain, and nobody says `post_paid` for it. */
  readonly chargesGivenHits: boolean;
  /** What met no rule of this domain. Moves; the rest of the set does not. */
  readonly unmatched: UnmatchedStats;
  /** Limits of this domain's rules and its global limit, for pages and metrics. */
  readonly limits: readonly Limit[];
  /** Files the domain came from, relative to the rules directory. */
  readonly files: readonly string[];
}

/** A note about a rule file, with its place. `severity` error refuses the whole set. */
export interface Problem extends Place {
  readonly severity: "error" | "warning";
  readonly message: string;
  /** What the author may have meant, as a sentence; absent if nothing comes near. */
  readonly suggestion?: string;
}

/** Snapshot of all domains. Never changes; a reload makes a new one. */
export interface RuleSet {
  /** 1 for the first set of the process, one more for each reload that took effect. */
  readonly version: number;
  /** SHA-256 of the names and contents of the files, hex. */
  readonly hash: string;
  readonly domains: ReadonlyMap<string, DomainRules>;
  readonly files: readonly string[];
  readonly warnings: readonly Problem[];
}
