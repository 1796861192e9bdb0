// The shape of a rules file: which keys each section may have, and the bounds of values. The compiler uses it for checks and messages;
// docs/rules-file.md describes it.

/** The kinds of mappings in a rules file. */
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

/** The section in messages, as the end of a sentence. */
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

/** Where a misplaced key belongs, as the end of a sentence. */
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

/** The reference service's keys. It accepts them at any level and ignores misplaced ones; here they also get a warning. */
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

/** Keys of a limit that the reference service lacks. */
export const OWN_LIMIT_KEYS: readonly string[] = SECTION_KEYS.limit.filter((key) => !REFERENCE_KEYS.has(key));

/** Keys of a rate in tokens per second. */
export const RATE_KEYS: readonly string[] = ["tokens_per_second", "rps"];

/** Sections that the reference has too, where its misplaced keys only get a warning. Our other sections refuse all but their own keys. */
export const REFERENCE_SECTIONS: ReadonlySet<Section> = new Set<Section>(["file", "rule", "limit", "replaces item"]);

/** The section to which a key belongs; undefined for an unknown key. */
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

/** Largest share of the wait that may be added to Retry-After. */
export const RETRY_AFTER_JITTER_MAX = 0.5;

/** Debt of a post-paid bucket unless the limit says otherwise, in bursts. */
export const DEBT_BURSTS_DEFAULT = 10;

/** Longest regular expression, in characters. */
export const REGEX_CHARS_MAX = 1_000;
/** Most instructions of one compiled regular expression (repeats multiply them). */
export const REGEX_INSTRUCTIONS_MAX = 500;

/** Most instructions of all regular expressions of a rule set, equal ones counted once. Each takes about 700 bytes. */
export const REGEX_INSTRUCTIONS_TOTAL_MAX = 100_000;

/**
 * A regular expression tests at most this many characters of a value, and at most REGEX_WORK_MAX / instructions. Matching is linear, but
 * takes up to 0.12 us per character and instruction, during which no other call is answered. With both bounds one expression takes at
 * most 12 ms.
 */
export const REGEX_VALUE_CHARS_MAX = 4_096;
export const REGEX_WORK_MAX = 100_000;

/** Most limits of one rule. All limits of all descriptors of a call are settled together. */
export const LIMITS_PER_RULE_MAX = 16;

/** Most parts of one unit (`per`). COST_PER_MAX x AMOUNT_MAX is below 2^53. */
export const COST_PER_MAX = 1_000_000;

/** Most names in the `limits` of a domain. A rule with a tier may have the limits of all names. */
export const LIMIT_NAMES_MAX = 1_000;

/** Longest time that a payment waits for its settlement, in seconds: a day. */
export const HOLD_SECONDS_MAX = 86_400;

/** Most values in one rule's `metadata`, nested ones included. They are sent with every passing answer. */
export const METADATA_VALUES_MAX = 10_000;

/** Most rules of a rule set, each value of `one_of` counted. */
export const RULES_MAX = 500_000;
