// Explain in words, and held equal to what the limiter does with generated rules and descriptors.

import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Counters } from "../../../../src/engine/counters/counters.ts";
import { OnStoreFailure } from "../../../../src/engine/domain/limit.ts";
import { oneByteOf, textOf, type WrittenEntry } from "../../../../src/engine/domain/request.ts";
import type { Take } from "../../../../src/engine/domain/take.ts";
import { LimitCall, NO_FINISHER } from "../../../../src/engine/limiter/call.ts";
import { TakeFiller } from "../../../../src/engine/limiter/fill.ts";
import { explainRequest } from "../../../../src/engine/rules/explain.ts";
import { TRIED_MAX } from "../../../../src/engine/rules/explain-tried.ts";
import { findRule } from "../../../../src/engine/rules/match.ts";
import { formatPlace } from "../../../../src/engine/rules/problems.ts";
import type { DomainRules, Rule, RuleSet } from "../../../../src/engine/rules/rule-set.ts";
import { LimitStatsBook } from "../../../../src/operate/telemetry/stats-book.ts";
import { ManualClock } from "../../../support/manual-clock.ts";
import { rulesFromYaml } from "../../../support/rules.ts";
import { runs } from "../../../support/runs.ts";

function entriesOf(...pairs: readonly string[]): WrittenEntry[] {
  return pairs.map((pair) => {
    const [key = "", value = ""] = pair.split("=", 2);
    return { key, value };
  });
}

function explainOne(rules: RuleSet, ...pairs: readonly string[]) {
  const report = explainRequest(rules, "edge", [entriesOf(...pairs)]).descriptors[0];
  if (report === undefined) throw new Error("one descriptor gives one report");
  return report;
}

const RULES = rulesFromYaml(`
domain: edge
global_limit: { requests_per_unit: 20000, unit: second }
descriptors:
  - key: plan
    value: enterprise
    descriptors:
      - key: api_key
        cost: { entry: weight, default: 3 }
        rate_limit: { tokens_per_second: 1000, burst: 2000 }
  - key: plan
    value: free*
    rate_limit: { requests_per_unit: 5, unit: minute, name: free }
  - key: plan
    value: fr*
    rate_limit: { requests_per_unit: 6, unit: minute }
  - key: plan
    rate_limits:
      - { name: per-second, requests_per_unit: 50, unit: second }
      - { name: per-day, requests_per_unit: 100000, unit: day, algorithm: fixed_window }
  - key: office
    value: hq
    rate_limit: { unlimited: true, replaces: [{ name: free }] }
  - key: path
    match: { prefix: /api/ }
    share_threshold: true
    rate_limit: { requests_per_unit: 7, unit: hour }
  - key: address
    match: { cidr: 10.0.0.0/8 }
    rate_limit: { requests_per_unit: 7, unit: hour }
  - key: listed
    value: friend
`);

describe("a rule with named limits", () => {
  const rules = rulesFromYaml(`
domain: edge
limits:
  free: { requests_per_unit: 10, unit: minute }
  gold: [{ name: rate, tokens_per_second: 5 }, { requests_per_unit: 900, unit: minute }]
  staff: { unlimited: true }
descriptors:
  - { key: tenant, tier: { entry: plan, default: free } }
  - { key: partner, use: gold }
`);

  test.each([
    [
      "tenant=a plan=gold",
      "applies with the limits 'gold', because 'plan' is 'gold'",
      ["edge/tenant#gold/rate", "edge/tenant#gold/sliding_window/60"],
    ],
    ["tenant=a plan=free", "applies with the limits 'free', because 'plan' is 'free'", ["edge/tenant#free"]],
    [
      "plan=iron tenant=a",
      "applies with the limits 'free', because 'plan' is 'iron', and no limits have that name",
      ["edge/tenant#free"],
    ],
    ["tenant=a", "applies with the limits 'free', because there is no entry 'plan'", ["edge/tenant#free"]],
    [
      "tenant=a plan=staff",
      "is unlimited with the limits 'staff', because 'plan' is 'staff': the descriptor always passes",
      [],
    ],
    ["partner=a", "applies with the limits 'gold'", ["edge/partner#gold/rate", "edge/partner#gold/sliding_window/60"]],
  ])("says which apply to %s, and why", (asked, says, ids) => {
    const report = explainOne(rules, ...asked.split(" "));
    expect(report.says).toBe(`the rule '${asked.includes("tenant") ? "tenant" : "partner"}' ${says}`);
    expect(report.limits.map(({ id }) => id)).toEqual(ids);
  });
});

describe("a limit with a priority", () => {
  const rules = rulesFromYaml(`
domain: edge
global_limit: { requests_per_unit: 100, unit: second, priority: { entry: class, high: 25%, values: [paid, staff] } }
descriptors:
  - { key: tenant, rate_limit: { tokens_per_second: 10, burst: 20, priority: { entry: class, high: 10% } } }
`);

  test("is shown as the descriptor's entries have it", () => {
    expect(explainOne(rules, "tenant=acme")).toMatchObject({
      limits: [
        {
          id: "edge/tenant#low",
          says: "10 tokens per second, burst 18, token bucket; 2 more are kept for calls of high priority",
        },
      ],
      entries: [{ outcome: "matched" }],
    });
    expect(explainOne(rules, "class=high", "tenant=acme")).toMatchObject({
      limits: [
        {
          id: "edge/tenant",
          says: "10 tokens per second, burst 20, token bucket; of these 2 only where 'class' is 'high'",
        },
      ],
      entries: [
        { outcome: "cost", says: "carries a cost, a hold, a priority or a tier of this domain: skipped in matching" },
        {},
      ],
    });
  });

  test("of the domain is shown as the entries of all descriptors have it", () => {
    const asked = [entriesOf("tenant=acme"), entriesOf("user=ann", "class=staff")];
    expect(explainRequest(rules, "edge", asked).global_limit).toMatchObject({
      id: "edge#global",
      says: "100 calls per second, sliding window; of these 25 only where 'class' is 'paid' or 'staff'",
    });
    expect(explainRequest(rules, "edge", asked.slice(0, 1)).global_limit).toMatchObject({
      id: "edge#global/low",
      says: "75 calls per second, sliding window; 25 more are kept for calls of high priority",
    });
  });
});

describe("a descriptor that has a limit", () => {
  test("says what a hit costs in units, what a call holds, and in which parts callers count", () => {
    const rules = rulesFromYaml(`
domain: edge
descriptors:
  - { key: paid, cost: { entry: price, per: 1000 }, rate_limit: { requests_per_unit: 5, unit: hour } }
  - key: held
    hold: { id: request_id, estimate: most, default: 2500, per: 1000, ttl: 60s }
    rate_limit: { requests_per_unit: 5, unit: hour, algorithm: fixed_window }
`);
    expect(explainOne(rules, "paid=a", "price=1001")).toMatchObject({ cost: 2, rule: { per: 1000 } });
    expect(explainOne(rules, "paid=a", "price=1001").rule).not.toHaveProperty("hold");
    expect(explainOne(rules, "held=a", "request_id=r1")).toMatchObject({
      cost: 3,
      rule: { per: 1000, hold: "opened" },
    });
    expect(explainOne(rules, "held=a", "settle=x")).toMatchObject({ rule: { per: 1000, hold: "settled" } });
    expect(explainOne(RULES, "plan=basic").rule).not.toHaveProperty("per");
  });

  test("names no limit that a settlement does not pay", () => {
    const rules = rulesFromYaml(`
domain: edge
global_limit: { requests_per_unit: 5, unit: hour }
descriptors:
  - { key: plain, rate_limit: { requests_per_unit: 5, unit: hour } }
  - key: held
    hold: { id: request_id, ttl: 60s }
    rate_limit: { requests_per_unit: 5, unit: hour, algorithm: fixed_window }
`);
    const settles = (key: string) => [
      { key, value: "a" },
      { key: "settle", value: "x" },
    ];
    const plain = explainRequest(rules, "edge", [settles("plain")]);
    expect(plain).not.toHaveProperty("global_limit");
    expect(plain.descriptors[0]).toMatchObject({ outcome: "no limit", limits: [] });
    const held = explainRequest(rules, "edge", [settles("held")]);
    expect(held).not.toHaveProperty("global_limit");
    expect(held.descriptors[0]?.limits).toHaveLength(1);
    const both = explainRequest(rules, "edge", [settles("held"), [{ key: "plain", value: "a" }]]);
    expect(both).toHaveProperty("global_limit");
  });
});

describe("why a rule was taken or not", () => {
  const why = (index: number, ...pairs: string[]) =>
    explainOne(RULES, ...pairs).entries[index]?.tried.map(({ rule, outcome, why }) => [rule, outcome, why]);

  test("an exact value leaves the patterns and the bare key untried", () => {
    expect(why(0, "plan=enterprise")).toEqual([
      ["plan=enterprise", "matched", "value is 'enterprise'"],
      ["plan=free*", "not tried", "'plan=enterprise' matched exactly, so this pattern was not tried"],
      ["plan=fr*", "not tried", "'plan=enterprise' matched exactly, so this pattern was not tried"],
      ["plan", "not tried", "'plan=enterprise' matched exactly, so the rule for any value was not tried"],
    ]);
  });

  test("patterns count in their order, before the bare key", () => {
    expect(why(0, "plan=freemium")).toEqual([
      ["plan=enterprise", "passed over", "value 'freemium' is not 'enterprise'"],
      ["plan=free*", "matched", "'freemium' fits 'free*'"],
      ["plan=fr*", "not tried", "'plan=free*' matched before, so this pattern was not tried, although it would fit"],
      ["plan", "not tried", "'plan=free*' matched before, so the rule for any value was not tried"],
    ]);
  });

  test.each([
    { name: "the bare key", pair: "plan=x", says: "takes any value of 'plan'" },
    { name: "a prefix", pair: "path=/api/x", says: "'/api/x' begins with '/api/'" },
    { name: "a wrong prefix", pair: "path=/web", says: "'/web' does not begin with '/api/'" },
    { name: "an address", pair: "address=10.1.2.3", says: "'10.1.2.3' is an address in 10.0.0.0/8" },
    { name: "another address", pair: "address=11.1.2.3", says: "'11.1.2.3' is not an address in 10.0.0.0/8" },
  ])("says it of $name", ({ pair, says }) => {
    expect(why(0, pair)?.at(-1)?.[2]).toBe(says);
  });

  test("a level of thousands of values names a few of them, the right one first", () => {
    const values = Array.from(
      { length: 2_000 },
      (_, i) => `  - { key: k, value: v${i}, rate_limit: { requests_per_unit: 1, unit: day } }`,
    );
    const many = rulesFromYaml(`domain: edge\ndescriptors:\n${values.join("\n")}\n`);
    const entry = explainOne(many, "k=v1999").entries[0];
    expect(entry?.tried[0]).toMatchObject({ rule: "k=v1999", outcome: "matched" });
    expect(entry?.tried.length).toBeLessThanOrEqual(TRIED_MAX);
    expect((entry?.tried.length ?? 0) + (entry?.left_out ?? 0)).toBe(2_000);
  });
});

test("an address is shown as rules have it, and other text as what it is", () => {
  const rules = rulesFromYaml(`domain: edge
descriptors:
  - { key: ip, address: { ipv6: 48 }, rate_limit: { requests_per_unit: 5, unit: minute } }
`);
  const explained = (pair: string) => {
    const { entries, limits } = explainOne(rules, pair);
    return { value: entries[0]?.value, says: entries[0]?.says, bucket: limits[0]?.bucket };
  };
  expect(explained("ip=2001:DB8::1")).toEqual({
    value: "2001:DB8::1",
    says: "matched by 'ip' as the address '2001:db8::/48'",
    bucket: "{edge|ip=2001:db8::/48}|sw/60",
  });
  expect(explained("ip=unknown").says).toBe("matched by 'ip' as text, because it is no address");
});

describe("a descriptor without a limit", () => {
  test.each([
    {
      name: "a misspelt key",
      pairs: ["pln=x"],
      says: "no rule has key 'pln' at this level; keys here: 'plan', 'office', 'path', 'address', 'listed'",
      suggestion: "Did you mean 'plan'?",
    },
    {
      name: "a misspelt value",
      pairs: ["office=hg"],
      says: "no rule for key 'office' accepts value 'hg'; values here: 'hq'",
      suggestion: "Did you mean 'hq'?",
    },
    {
      name: "entries in the wrong order",
      pairs: ["api_key=abc", "plan=enterprise"],
      says: "no rule has key 'api_key' at this level; keys here: 'plan', 'office', 'path', 'address', 'listed'",
      suggestion: "The order of entries matters; a rule with key 'api_key' is at 'plan=enterprise/api_key'.",
    },
    {
      name: "more entries than rules",
      pairs: ["plan=basic", "path=/"],
      says: "the path of rules ends at 'plan', which has no rules below it; its own limit is not applied, because more entries follow",
      suggestion: "If 'path' carries a cost, say so at that rule: cost: { entry: path }.",
    },
    {
      name: "too few entries",
      pairs: ["plan=enterprise"],
      says: "the rule 'plan=enterprise' has no limit of its own; rules below it need one more entry: 'api_key'",
      suggestion: undefined,
    },
    {
      name: "a rule without a limit",
      pairs: ["listed=friend"],
      says: "the rule 'listed=friend' has no limit and no rules below it: the descriptor always passes",
      suggestion: undefined,
    },
    {
      name: "no entries",
      pairs: [],
      says: "the descriptor has no entries to match, so it has no limit",
      suggestion: undefined,
    },
  ])("says so of $name", ({ pairs, says, suggestion }) => {
    const report = explainOne(RULES, ...pairs);
    expect([report.outcome, report.limits, report.says, report.suggestion]).toEqual(["no limit", [], says, suggestion]);
  });

  test("names the domains and the nearest when the domain is unknown", () => {
    const report = explainRequest(RULES, "egde", [entriesOf("plan=x")]);
    expect([report.says, report.suggestion, report.descriptors]).toEqual([
      "no rules are for domain 'egde', so every call passes; domains: 'edge'",
      "Did you mean 'edge'?",
      [],
    ]);
  });
});

test("a limit that another descriptor replaces is marked", () => {
  const report = explainRequest(RULES, "edge", [entriesOf("plan=free"), entriesOf("office=hq")]);
  expect(report.descriptors[0]?.limits).toMatchObject([{ name: "free", is_replaced: true }]);
});

describe("in the compatibility mode", () => {
  const compatible = rulesFromYaml(
    `domain: edge
descriptors:
  - { key: path, value: a_b, rate_limit: { requests_per_unit: 1, unit: minute } }
  - { key: path, value: "x*", rate_limit: { requests_per_unit: 2, unit: minute } }
  - { key: path, rate_limit: { requests_per_unit: 3, unit: minute } }
`,
    { compatible: true },
  );

  test("a rule of another key is found by the text of key and value, and said so", () => {
    const report = explainOne(compatible, "path_a=b");
    expect(report.limits[0]?.bucket).toBe("edge_path_a_b_<start of the window>");
    expect(report.entries[0]?.tried).toMatchObject([
      { rule: "path=a_b", outcome: "matched", why: "its key and value joined are 'path_a_b', as the entry's are" },
      { rule: "path=x*", outcome: "not tried" },
    ]);
  });

  test("patterns are tried on the whole text, the key alone last", () => {
    expect(explainOne(compatible, "path=q").entries[0]?.tried).toMatchObject([
      { rule: "path=a_b", outcome: "passed over" },
      { rule: "path=x*", outcome: "passed over", why: "'path_q', key and value as one, does not fit" },
      { rule: "path", outcome: "matched" },
    ]);
  });
});

const value = fc.constantFrom(
  "a",
  "b",
  "ab",
  "aab",
  "b*",
  "ü",
  "",
  "10.0.0.1",
  "::ffff:10.0.0.1",
  "2001:DB8::1",
  "2001:db8::2",
);
const accepted = fc.oneof(
  fc.record({ value: fc.constantFrom("a", "b", "ü", "", "::FFFF:a00:1", "2001:db8::2") }),
  fc.record({ value: fc.constantFrom("b*", "*", "a*b"), share_threshold: fc.boolean() }),
  fc.record({
    match: fc.constantFrom<object>(
      { prefix: "a" },
      { suffix: "b" },
      { regex: "^a+b$" },
      { one_of: ["a", "ab"] },
      { cidr: "10.0.0.0/8" },
      { cidr: "2001:db8::/127" },
    ),
    share_threshold: fc.boolean(),
  }),
);
const limit = fc.constantFrom<object>(
  { rate_limit: { requests_per_unit: 5, unit: "minute" } },
  { rate_limit: { tokens_per_second: 5, burst: 9 }, cost: { entry: "w" } },
  { rate_limit: { unlimited: true } },
  { address: true, rate_limit: { requests_per_unit: 5, unit: "minute" } },
  { hash_values: true, rate_limit: { requests_per_unit: 5, window: "30s" } },
  {},
);
const key = fc.constantFrom("a", "b", "ü");
const { level } = fc.letrec<{ level: object[]; rule: object }>((tie) => ({
  level: fc.array(tie("rule"), { minLength: 1, maxLength: 4 }),
  rule: fc.oneof(
    { depthSize: "medium" },
    fc.tuple(key, accepted, limit).map(([key, accepts, limits]) => ({ key, ...accepts, ...limits })),
    fc.tuple(key, accepted, limit, tie("level")).map(([key, accepts, limits, descriptors]) => ({
      key,
      ...accepts,
      ...limits,
      descriptors,
    })),
    limit.map((limits) => ({ key: "a*", ...limits })),
  ),
}));
const entry = fc.record({ key: fc.constantFrom("a", "a", "b", "ü", "w"), value });

test.each([
  { mode: "its own way", compatible: false },
  { mode: "the compatibility mode", compatible: true },
])(
  "agreement with what calls meet finds the rule that the limiter finds, and the same buckets, in $mode",
  ({ compatible }) => {
    const clock = new ManualClock();
    const filler = new TakeFiller({
      shadowMode: false,
      quotaMode: false,
      onStoreFailure: OnStoreFailure.allow,
      retryAfterJitter: 0,
      clock,
      counters: new Counters({
        windowClock: clock,
        nearLimitRatio: 0.8,
        shadowMode: false,
        quotaMode: false,
        localCache: undefined,
      }),
      statsBook: new LimitStatsBook(200),
    });
    let limited = 0;
    const compare = (rules: RuleSet, domain: DomainRules, entries: readonly WrittenEntry[]) => {
      const call = new LimitCall(NO_FINISHER);
      call.request.domain = "edge";
      const descriptor = call.request.addDescriptor();
      for (const { key, value } of entries) descriptor.addEntry(oneByteOf(key), oneByteOf(value));
      const matched: Rule[] = [];
      filler.fill(call, domain);
      const found = findRule(domain, descriptor, matched);
      const report = explainRequest(rules, "edge", [entries]).descriptors[0];
      const buckets = call.group.takes
        .slice(0, call.group.size)
        .map((take) => withoutWindow(take, textOf(take.bucketKey)));
      const walked = report?.entries.flatMap((shown) => shown.tried.filter((rule) => rule.outcome === "matched"));
      expect(report?.rule?.where).toBe(found === undefined ? undefined : formatPlace(found.at));
      expect(report?.outcome === "no limit").toBe(found === undefined);
      expect(report?.limits.map((limit) => limit.bucket)).toEqual(buckets);
      expect(walked?.map((rule) => rule.where)).toEqual(matched.map((rule) => formatPlace(rule.at)));
      limited += buckets.length;
    };
    const descriptors = fc.array(fc.array(entry, { minLength: 1, maxLength: 3 }), { minLength: 20, maxLength: 20 });
    fc.assert(
      fc.property(level, descriptors, (rootRules, asked) => {
        const rules = tryRules({ domain: "edge", descriptors: rootRules }, compatible);
        const domain = rules?.domains.get("edge");
        fc.pre(rules !== undefined && domain !== undefined);
        for (const entries of asked) if (rules !== undefined && domain !== undefined) compare(rules, domain, entries);
      }),
      { numRuns: runs(80) },
    );
    // The generator reaches what it is for.
    expect(limited).toBeGreaterThan(0);
  },
);

// Explain doesn't say when a counter's window began.
function withoutWindow({ limit }: Take, bucketKey: string): string {
  return limit.isCounter ? bucketKey.replace(/\d+$/, "<start of the window>") : bucketKey;
}

function tryRules(file: object, compatible: boolean): RuleSet | undefined {
  try {
    return rulesFromYaml(JSON.stringify(file), { compatible });
  } catch (error) {
    if (error instanceof Error && error.message.startsWith("the test's rules don't compile")) return undefined;
    throw error;
  }
}

test("a value that is no text is looked at by its bytes: no rule's value can equal it", () => {
  const rules = rulesFromYaml(`domain: edge
descriptors:
  - { key: a, value: "\ufffd", rate_limit: { requests_per_unit: 1, unit: day } }
  - { key: a, rate_limit: { requests_per_unit: 2, unit: day } }
`);
  const amountOf = (entry: WrittenEntry) => explainRequest(rules, "edge", [[entry]]).descriptors[0]?.limits[0];
  expect(amountOf({ key: "a", value: "\ufffd" })?.says).toContain("1 ");
  expect(amountOf({ key: "a", value: "\ufffd", valueBase64: "/w==" })?.says).toContain("2 ");
});
