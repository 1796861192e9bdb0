// The shape of a rules file: which keys each section may have, and the bounds of values. The compiler uses it for
// checks and messages; docs/rules-file.md describes it.

/** The keys that a mapping may have. */
export interface KnownKeys {
  readonly keys: readonly string[];
  /** The section in messages, as the end of a sentence. */
  readonly title: string;
}

/** A kind of mapping in a rules file. */
interface SectionShape extends KnownKeys {
  /** Where a misplaced key belongs, as the end of a sentence. */
  readonly home: string;
}

function inside(key: string, keys: readonly string[]): SectionShape {
  return { keys, title: `in '${key}'`, home: `inside '${key}'` };
}

/** Keys of the reference service: of its rules, and of its limits. */
const REFERENCE_RULE_KEYS = [
  "key",
  "value",
  "rate_limit",
  "descriptors",
  "shadow_mode",
  "quota_mode",
  "detailed_metric",
  "value_to_metric",
  "share_threshold",
  "metadata",
];
const REFERENCE_LIMIT_KEYS = ["requests_per_unit", "unit", "unlimited", "name", "replaces"];

/** Keys of a limit that the reference service lacks. */
export const OWN_LIMIT_KEYS: readonly string[] = [
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
  "guarantee",
];
const LIMIT_KEYS = [...REFERENCE_LIMIT_KEYS, ...OWN_LIMIT_KEYS];

/** All sections. A misplaced key belongs into the first one that has it. */
export const SECTIONS = {
  rule: {
    title: "in a rule of 'descriptors'",
    home: "in the rule itself, next to 'key'",
    keys: [
      ...REFERENCE_RULE_KEYS,
      "match",
      "address",
      "rate_limits",
      "use",
      "tier",
      "cost",
      "post_paid",
      "charge_given_hits",
      "on_store_failure",
      "hash_values",
      "hold",
      "concurrent",
      "hand_out",
      "rarely",
    ],
  },
  limit: { title: "in a rate limit", home: "inside 'rate_limit'", keys: LIMIT_KEYS },
  file: {
    title: "at the top of the file",
    home: "at the top of the file, next to 'domain'",
    keys: ["domain", "descriptors", "global_limit", "defaults", "limits", "require", "on_missing"],
  },
  "global limit": inside("global_limit", [
    ...LIMIT_KEYS.filter((key) => !["unlimited", "replaces", "debt_max"].includes(key)),
    "count",
  ]),
  cost: inside("cost", ["entry", "default", "max", "per"]),
  hold: inside("hold", ["id", "estimate", "default", "max", "per", "ttl", "settle"]),
  "hand out": inside("hand_out", ["idle", "floor"]),
  "calendar window": inside("window", ["calendar", "time_zone", "starts_on"]),
  priority: inside("priority", ["entry", "high", "values"]),
  guarantee: inside("guarantee", ["entry", "tokens_per_second", "burst", "keep", "callers"]),
  tier: inside("tier", ["entry", "default", "among"]),
  address: inside("address", ["ipv6"]),
  match: inside("match", ["one_of", "prefix", "suffix", "regex", "cidr"]),
  defaults: inside("defaults", [
    "algorithm",
    "on_store_failure",
    "sync",
    "retry_after_jitter",
    "post_paid",
    "hold",
    "concurrent",
    "require",
    "on_missing",
  ]),
  "replaces item": { title: "in an item of 'replaces'", home: "inside an item of 'replaces'", keys: ["name"] },
  settle: inside("settle", ["entry", "value"]),
} satisfies Readonly<Record<string, SectionShape>>;

export type Section = keyof typeof SECTIONS;

/**
 * The reference service's keys. It accepts them at any level and ignores misplaced ones; here they also get a warning.
 */
export const REFERENCE_KEYS: ReadonlySet<string> = new Set(["domain", ...REFERENCE_RULE_KEYS, ...REFERENCE_LIMIT_KEYS]);

/** Keys of a rate in tokens per second. */
export const RATE_KEYS: readonly string[] = ["tokens_per_second", "rps"];

/**
 * Sections that the reference has too, where its misplaced keys only get a warning. Our other sections refuse all but
 * their own keys.
 */
export const REFERENCE_SECTIONS: ReadonlySet<Section> = new Set<Section>(["file", "rule", "limit", "replaces item"]);

/** The section to which a key belongs; undefined for an unknown key. */
export function homeOf(key: string): Section | undefined {
  return (Object.keys(SECTIONS) as Section[]).find((section) => SECTIONS[section].keys.includes(key));
}

/** Debt of a post-paid bucket unless the limit says otherwise, in bursts. */
export const DEBT_BURSTS_DEFAULT = 10;

/**
 * How many bits of an IPv6 address choose its group: a host or a household usually has all addresses with the same 64.
 */
export const ADDRESS_IPV6_BITS_DEFAULT = 64;
export const ADDRESS_IPV6_BITS_MAX = 128;

/** Longest regular expression, in characters. */
export const REGEX_CHARS_MAX = 1_000;
/** Most instructions of one compiled regular expression (repeats multiply them). */
export const REGEX_INSTRUCTIONS_MAX = 500;

/** Most instructions of all regular expressions of a rule set, equal ones counted once. Each takes about 700 bytes. */
export const REGEX_INSTRUCTIONS_TOTAL_MAX = 100_000;

/**
 * A regular expression tests at most this many characters of a value, and at most REGEX_WORK_MAX / instructions.
 * Matching is linear, but takes up to 0.12 us per character and instruction, during which no other call is answered.
 * With both bounds one expression takes at most 12 ms.
 */
export const REGEX_VALUE_CHARS_MAX = 4_096;
export const REGEX_WORK_MAX = 100_000;

/** Most limits that one limit replaces. They are read in one step, and looked up by calls. */
export const REPLACES_MAX = 1_000;

/** Most limits of one rule. All limits of all descriptors of a call are decided together. */
export const LIMITS_PER_RULE_MAX = 16;

/** Most parts of one unit (`per`). COST_PER_MAX x AMOUNT_MAX is below 2^53. */
export const COST_PER_MAX = 1_000_000;

/** Most names in the `limits` of a domain. A rule with a tier may have the limits of all names. */
export const LIMIT_NAMES_MAX = 1_000;

/** Longest time that a payment waits for its settlement, in seconds: a day. */
export const HOLD_SECONDS_MAX = 86_400;

/** Most values in one rule's `metadata`, nested ones included. They are sent with every passing answer. */
export const METADATA_VALUES_MAX = 10_000;

/**
 * Most nodes (mappings, lists, keys and values) of all files that are read together, or of all resources of a set, each
 * alias counted with its target. Two bytes of a resource may be a descriptor of 300 bytes here. 100,000 rules with a
 * limit each have 1,100,000 nodes.
 */
export const NODES_MAX = 2_000_000;
export const NODES_FAULT = `more than ${NODES_MAX} nodes (mappings, lists, keys and values) in all, aliases written out`;

/** Most rules of a rule set, each value of `one_of` counted. Each takes 2 to 4 KB while it is compiled. */
export const RULES_MAX = 200_000;
export const RULES_FAULT = `more than ${RULES_MAX} rules in all, each value of one_of counted with all below it`;
