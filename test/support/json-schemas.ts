// JSON Schemas of rule files and of files of cases, for editors: deploy/schemas. Their keys are those that the readers know, and what a
// key means is said as the tables of the docs say it.

import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { AMOUNT_MAX } from "../../src/base/units.ts";
import {
  ALGORITHM_NAMES,
  HOLDS_PER_BUCKET_MAX,
  ON_STORE_FAILURE_NAMES,
  RETRY_AFTER_JITTER_MAX,
  SYNC_NAMES,
  UNIT_NAMES,
  WRITTEN_ALGORITHM_NAMES,
  WRITTEN_ALGORITHMS,
} from "../../src/engine/domain/limit.ts";
import { CALENDAR_UNITS } from "../../src/engine/rules/calendar.ts";
import {
  ADDRESS_IPV6_BITS_MAX,
  COST_PER_MAX,
  LIMIT_NAMES_MAX,
  REFERENCE_KEYS,
  REFERENCE_SECTIONS,
  REPLACES_MAX,
  SECTIONS,
  type Section,
} from "../../src/engine/rules/schema.ts";
import {
  CASE_KEYS,
  CODES,
  DESCRIPTOR_KEYS,
  EXPECT_KEYS,
  FILE_KEYS,
  FOUND,
  OVERRIDE_KEYS,
  STEP_KEYS,
} from "../../src/tools/simulate/cases/read-cases.ts";

export type Schema = Readonly<Record<string, unknown>>;

// A key without a value counts as absent, so null is good everywhere.
const TEXT: Schema = { type: ["string", "integer", "boolean", "null"] };
const FLAG: Schema = { type: ["boolean", "null"] };
const ANY: Schema = {};
const TEXTS = { anyOf: [TEXT, { type: "array", items: TEXT, minItems: 1 }] };
const DURATION: Schema = { type: ["string", "null"], pattern: "^\\d+[smhd]$" };

const whole = (minimum: number, maximum: number): Schema => ({ type: ["integer", "null"], minimum, maximum });
const words = (known: readonly string[]): Schema => ({ enum: [...known, null] });
const listOf = (items: Schema, bounds: Schema = {}): Schema => ({ type: ["array", "null"], items, ...bounds });
const either = (...schemas: Schema[]): Schema => ({ anyOf: schemas });
// In a list of one: draft 7 ignores what stands next to a $ref.
const part = (name: string): Schema => ({ allOf: [{ $ref: `#/$defs/${name}` }] });
const section = (name: Section): Schema => part(name.replaceAll(" ", "-"));

/** The words in any case; editors offer those in small letters. */
function wordsInAnyCase(known: readonly string[]): Schema {
  const letters = (word: string) => word.replace(/[a-z]/g, (letter) => `[${letter}${letter.toUpperCase()}]`);
  return either(words(known), { type: "string", pattern: `^(${known.map(letters).join("|")})$` });
}

const UNITS = wordsInAnyCase(UNIT_NAMES.slice(1));
const COST_PER = { max: whole(1, AMOUNT_MAX * COST_PER_MAX), per: whole(1, COST_PER_MAX) };
const WINDOW = either(DURATION, section("calendar window"));
const LIMITS = either(section("limit"), listOf(section("limit"), { minItems: 1 }));

/** The value of each key; a key of one section alone that is not what it is elsewhere stands as `section.key`. */
const RULE_VALUES: Readonly<Record<string, Schema>> = {
  address: either(FLAG, section("address")),
  algorithm: words(WRITTEN_ALGORITHMS.map((algorithm) => ALGORITHM_NAMES[algorithm])),
  among: TEXTS,
  burst: whole(1, AMOUNT_MAX),
  calendar: words(CALENDAR_UNITS),
  callers: whole(1, AMOUNT_MAX),
  cidr: TEXTS,
  concurrent: whole(1, HOLDS_PER_BUCKET_MAX),
  cost: either(section("cost"), { type: "null" }),
  count: words(["calls", "hits"]),
  debt_max: whole(1, AMOUNT_MAX),
  default: whole(1, AMOUNT_MAX * COST_PER_MAX),
  "tier.default": TEXT,
  defaults: section("defaults"),
  descriptors: listOf(section("rule")),
  detailed_metric: FLAG,
  domain: { type: ["string", "integer", "boolean"] },
  entry: TEXT,
  estimate: TEXT,
  floor: { type: ["string", "null"], pattern: "^\\d{1,2}%$" },
  global_limit: either(section("global limit"), { type: "null" }),
  guarantee: either(section("guarantee"), { type: "null" }),
  hand_out: either(section("hand out"), { type: "null" }),
  hash_values: FLAG,
  high: { type: ["string", "null"], pattern: "^[1-9]\\d?%$" },
  hold: either(section("hold"), { type: "null" }),
  id: TEXT,
  idle: DURATION,
  ipv6: whole(1, ADDRESS_IPV6_BITS_MAX),
  keep: { type: ["string", "null"], pattern: "^[1-9]\\d?%$" },
  key: { type: ["string", "integer", "boolean"] },
  limits: { type: "object", additionalProperties: LIMITS, maxProperties: LIMIT_NAMES_MAX },
  match: { type: ["object", "null"], minProperties: 1, maxProperties: 1, ...section("match") },
  metadata: { type: ["object", "null"] },
  name: TEXT,
  on_missing: words(["allow", "refuse"]),
  on_store_failure: words(ON_STORE_FAILURE_NAMES),
  one_of: TEXTS,
  post_paid: FLAG,
  charge_given_hits: FLAG,
  prefix: TEXT,
  priority: either(section("priority"), { type: "null" }),
  quota_mode: FLAG,
  rarely: FLAG,
  rate_limit: either(section("limit"), { type: "null" }),
  rate_limits: listOf(section("limit"), { minItems: 1 }),
  regex: TEXT,
  replaces: listOf(section("replaces item"), { maxItems: REPLACES_MAX }),
  requests_per_unit: whole(0, AMOUNT_MAX),
  require: TEXTS,
  retry_after_jitter: { type: ["number", "null"], minimum: 0, maximum: RETRY_AFTER_JITTER_MAX },
  rps: { type: ["number", "null"], exclusiveMinimum: 0 },
  settle: either(TEXT, section("settle")),
  shadow_mode: FLAG,
  share_threshold: FLAG,
  starts_on: TEXT,
  suffix: TEXT,
  sync: words(SYNC_NAMES),
  tier: either(section("tier"), { type: "null" }),
  time_zone: TEXT,
  tokens_per_second: { type: ["number", "null"], exclusiveMinimum: 0 },
  ttl: DURATION,
  unit: UNITS,
  unlimited: FLAG,
  use: TEXT,
  value: TEXT,
  value_to_metric: FLAG,
  values: TEXTS,
  window: WINDOW,
  ...COST_PER,
};

/** Keys that must be there. */
const REQUIRED: Partial<Record<Section, readonly string[]>> = {
  file: ["domain"],
  rule: ["key"],
  "replaces item": ["name"],
  hold: ["id", "ttl"],
  priority: ["entry", "high"],
  guarantee: ["entry", "tokens_per_second", "keep"],
  "calendar window": ["calendar", "time_zone"],
};

const TIME: Schema = { type: ["string", "null"] };
const ENTRIES: Schema = either(TEXT, { type: "object", additionalProperties: TEXT });
const ASKED = { hits: whole(0, Number.MAX_SAFE_INTEGER), peek: FLAG, refund: FLAG, override: part("override") };
const CODE = words(CODES);

const CASE_PARTS: Readonly<
  Record<string, { readonly keys: readonly string[]; readonly values: Schema; readonly required?: readonly string[] }>
> = {
  file: {
    keys: FILE_KEYS,
    values: {
      rules: { type: ["string", "object"] },
      domain: TEXT,
      settings: { type: ["object", "null"], additionalProperties: TEXT },
      start: TIME,
      cases: listOf(part("case"), { minItems: 1 }),
    },
    required: ["cases"],
  },
  case: {
    keys: CASE_KEYS,
    values: {
      name: TEXT,
      domain: TEXT,
      start: TIME,
      limits: listOf({ type: "object", required: ["descriptor"] }),
      steps: listOf(part("step"), { minItems: 1 }),
    },
    required: ["name", "steps"],
  },
  step: {
    keys: STEP_KEYS,
    values: {
      after: TIME,
      at: TIME,
      store: words(["away", "back"]),
      limits: listOf({ type: "object", required: ["descriptor"] }),
      domain: TEXT,
      call: either(TEXT, part("descriptor"), listOf(either(TEXT, part("descriptor")))),
      times: whole(1, 1_000_000),
      every: TIME,
      expect: either(CODE, part("expect")),
      ...ASKED,
    },
  },
  descriptor: { keys: DESCRIPTOR_KEYS, values: { entries: ENTRIES, ...ASKED } },
  expect: {
    keys: EXPECT_KEYS,
    values: {
      code: CODE,
      rule: TEXT,
      remaining: whole(0, Number.MAX_SAFE_INTEGER),
      wait: TIME,
      reset: TIME,
      headers: { type: ["object", "null"], additionalProperties: TEXT },
      matches: TEXTS,
      statuses: TEXTS,
      reserved: TEXTS,
      found: either(words(FOUND), { type: "array", items: words(FOUND) }),
    },
  },
  override: {
    keys: OVERRIDE_KEYS,
    values: {
      requests_per_unit: whole(0, AMOUNT_MAX),
      unit: words(UNIT_NAMES),
      unit_multiplier: whole(1, AMOUNT_MAX),
      algorithm: words(WRITTEN_ALGORITHM_NAMES),
    },
  },
};

/** The schema of rule files. */
export function rulesSchema(): Schema {
  const meanings = meaningsOf("docs/rules-file.md");
  const names = Object.keys(SECTIONS) as Section[];
  const shapes = names.map((name) => {
    const own = SECTIONS[name].keys.map((key) => [
      key,
      described(RULE_VALUES[`${name}.${key}`] ?? RULE_VALUES[key], key, meanings),
    ]);
    // Files of envoyproxy/ratelimit may have its keys where they mean nothing.
    const ignored = REFERENCE_SECTIONS.has(name)
      ? [...REFERENCE_KEYS].filter((key) => !(SECTIONS[name].keys as readonly string[]).includes(key))
      : [];
    // By a pattern, because editors offer all properties.
    const strays: Schema =
      ignored.length === 0
        ? {}
        : { [`^(${ignored.join("|")})$`]: { ...ANY, deprecated: true, description: "Ignored here." } };
    return [name.replaceAll(" ", "-"), shapeOf(Object.fromEntries(own), REQUIRED[name], strays)];
  });
  return schemaOf("Headgate rule file", Object.fromEntries(shapes));
}

/** The schema of files of cases (`headgate test`). */
export function casesSchema(): Schema {
  const meanings = meaningsOf("docs/testing-rules.md");
  const shapes = Object.entries(CASE_PARTS).map(([name, { keys, values, required }]) => [
    name,
    shapeOf(
      Object.fromEntries(keys.map((key) => [key, described(values[key] as Schema | undefined, key, meanings)])),
      required,
    ),
  ]);
  return schemaOf("Headgate cases", Object.fromEntries(shapes));
}

function schemaOf(title: string, $defs: Schema): Schema {
  return { $schema: "http://json-schema.org/draft-07/schema#", title, ...part("file"), $defs };
}

function shapeOf(properties: Schema, required: readonly string[] = [], patternProperties: Schema = {}): Schema {
  const patterns = Object.keys(patternProperties).length === 0 ? {} : { patternProperties };
  return { type: "object", properties, ...patterns, required, additionalProperties: false };
}

function described(value: Schema | undefined, key: string, meanings: ReadonlyMap<string, string>): Schema {
  if (value === undefined) throw new Error(`no schema says what '${key}' may be`);
  const description = meanings.get(key);
  // Without a title of its own, editors show the file's.
  return description === undefined ? { title: key, ...value } : { title: key, description, ...value };
}

/** What the tables of a page say of each key, as text: the first row counts. */
function meaningsOf(page: string): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  for (const line of readFileSync(resolve(import.meta.dirname, "../..", page), "utf8").split("\n")) {
    const cells = line.split(" | ").map((cell) => cell.replace(/^\| ?| ?\|$/g, "").trim());
    const meaning = (cells.at(-1) ?? "").replace(/\[([^\]]+)\]\([^)]*\)/g, "$1").replace(/`/g, "");
    if (!line.startsWith("| `") || cells.length < 2 || meaning === "") continue;
    for (const [, key = ""] of (cells[0] ?? "").matchAll(/`(\w+)`/g)) if (!found.has(key)) found.set(key, meaning);
  }
  return found;
}
