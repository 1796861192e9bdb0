// Shape of a rules file: which key may stand where, and the bounds of what it holds. The compiler reads it for its
// checks and its messages; docs/rules-file.md shows it to people.

/** The mappings that a rules file is made of. */
export type Section =
  | "file"
  | "defaults"
  | "rule"
  | "limit"
  | "global limit"
  | "replaces item"
  | "cost"
  | "hold"
  | "priority"
  | "settle"
  | "tier"
  | "calendar window"
  | "match";

/** How messages name a section, as the end of a sentence. */
export const SECTION_TITLES: Readonly<Record<Section, string>> = {
  file: "at the top of the file",
  defaults: "in 'defaults'",
  rule: "in a rule of 'descriptors'",
  limit: "in a rate limit",
  "global limit": "in 'global_limit'",
  "replaces item": "in an item of 'replaces'",
  cost: "in 'cost'",
  hold: "in 'hold'",
  priority: "in 'priority'",
  settle: "in 'settle'",
  tier: "in 'tier'",
  "calendar window": "in 'window'",
  match: "in 'match'",
};

/** Where to put a key that stands in the wrong section, as the end of a sentence. */
export const SECTION_HOMES: Readonly<Record<Section, string>> = {
  file: "at the top of the file, beside 'domain'",
  defaults: "inside 'defaults'",
  rule: "in the rule itself, beside 'key'",
  limit: "inside 'rate_limit'",
  "global limit": "inside 'global_limit'",
  "replaces item": "inside an item of 'replaces'",
  cost: "inside 'cost'",
  hold: "inside 'hold'",
  priority: "inside 'priority'",
  settle: "inside 'settle'",
  tier: "inside 'tier'",
  "calendar window": "inside 'window'",
  match: "inside 'match'",
};

/** Keys of each section. */
export const SECTION_KEYS: Readonly<Record<Section, readonly string[]>> = {
  file: ["domain", "descriptors", "global_limit", "defaults", "limits"],
  defaults: ["algorithm", "on_store_failure", "sync", "retry_after_jitter", "post_paid", "hold", "concurrent"],
  rule: [
    "key",
    "value",
    "match",
    "rate_limit",
    "rate_limits",
    "use",
    "tier",
    "descriptors",
    "shadow_mode",
    "quota_mode",
    "detailed_metric",
    "value_to_metric",
    "share_threshold",
    "metadata",
    "cost",
    "post_paid",
    "on_store_failure",
    "hash_values",
    "hold",
    "concurrent",
  ],
  limit: [
    "requests_per_unit",
    "unit",
    "unlimited",
    "name",
    "replaces",
    "tokens_per_second",
    "rps",
    "burst",
    "window",
    "algorithm",
    "debt_max",
    "retry_after_jitter",
    "on_store_failure",
    "sync",
    "priority",
  ],
  "global limit": [
    "requests_per_unit",
    "unit",
    "name",
    "tokens_per_second",
    "rps",
    "burst",
    "window",
    "algorithm",
    "retry_after_jitter",
    "on_store_failure",
    "sync",
    "count",
    "priority",
  ],
  "replaces item": ["name"],
  cost: ["entry", "default", "max", "per"],
  hold: ["id", "estimate", "default", "max", "per", "ttl", "settle"],
  priority: ["entry", "high", "values"],
  settle: ["entry", "value"],
  tier: ["entry", "default", "among"],
  "calendar window": ["calendar", "time_zone", "starts_on"],
  match: ["one_of", "prefix", "suffix", "regex", "cidr"],
};

/** Keys that the reference service knows. It takes them at any level and ignores them at the wrong one; so do we, with a warning. */
export const REFERENCE_KEYS: ReadonlySet<string> = new Set([
  "domain",
  "key",
  "value",
  "descriptors",
  "rate_limit",
  "unit",
  "requests_per_unit",
  "unlimited",
  "shadow_mode",
  "quota_mode",
  "name",
  "replaces",
  "detailed_metric",
  "value_to_metric",
  "share_threshold",
  "metadata",
]);

/** Sections in which the reference's keys can stand by mistake; the others are ours alone and take only their own keys. */
export const REFERENCE_SECTIONS: ReadonlySet<Section> = new Set<Section>(["file", "rule", "limit", "replaces item"]);

/** The section a key belongs to, or undefined if no section knows it. */
export function homeOf(key: string): Section | undefined {
  for (const section of [
    "rule",
    "limit",
    "file",
    "global limit",
    "cost",
    "hold",
    "calendar window",
    "priority",
    "tier",
    "match",
  ] as const) {
    if (SECTION_KEYS[section].includes(key)) return section;
  }
  return undefined;
}

export { WINDOW_SECONDS_MAX } from "../core/limit.ts";

/** Most hits of a sliding log, which keeps each hit's time. */
export const SLIDING_LOG_AMOUNT_MAX = 10_000;

/** Largest share of the wait that may be added to Retry-After. */
export const RETRY_AFTER_JITTER_MAX = 0.5;

/** Debt of a post-paid bucket unless the limit says otherwise, in bursts. */
export const DEBT_BURSTS_DEFAULT = 10;

/** Longest regular expression, and most instructions that one may compile to (repeats multiply them). */
export const REGEX_CHARS_MAX = 1_000;
export const REGEX_INSTRUCTIONS_MAX = 500;

/** Most instructions of all regular expressions of a rule set, equal ones counted once; each takes some 700 bytes. */
export const REGEX_INSTRUCTIONS_TOTAL_MAX = 100_000;

/**
 * How far into a value a regular expression looks: this many characters, fewer if it has so many instructions that
 * instructions x characters come to more than REGEX_WORK_MAX. Matching takes linear time, but up to 0.12 us for each, and
 * nobody else is answered meanwhile: with these bounds one expression takes 12 ms at the very most.
 */
export const REGEX_VALUE_CHARS_MAX = 4_096;
export const REGEX_WORK_MAX = 100_000;

/** Most limits of one rule: all limits of all rules that a call reaches are settled at once. */
export const LIMITS_PER_RULE_MAX = 16;
/** Most of them that are sliding logs: so that a rule beside any global limit stays below GROUP_WEIGHT_MAX (core/take.ts). */
export const LOGS_PER_RULE_MAX = 6;

/** Most parts that callers may count a rule's unit in: as many times AMOUNT_MAX is still below 2^53. */
export const COST_PER_MAX = 1_000_000;

/** Most names in the `limits` of a domain: each rule with a tier has the limits of all of them. */
export const LIMIT_NAMES_MAX = 1_000;

/** Longest time that a payment waits for its settlement, in seconds: a day. */
export const HOLD_SECONDS_MAX = 86_400;

/** Most values of one rule's `metadata`, those inside others counted: they go out with every answer that passes. */
export const METADATA_VALUES_MAX = 10_000;

/** Most rules of a rule set, each value of `one_of` counted. */
export const RULES_MAX = 500_000;
