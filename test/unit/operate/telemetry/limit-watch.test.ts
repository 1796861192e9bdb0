// When limits last matched a call, which are dead, and why.

import { expect, test } from "vitest";
import { runThrough } from "../../../../src/base/long-work.ts";
import { Unit } from "../../../../src/engine/domain/limit.ts";
import type { RuleSet } from "../../../../src/engine/rules/rule-set.ts";
import { LimitWatch } from "../../../../src/operate/telemetry/limit-watch.ts";
import { type AskedDescriptor, LimiterRig } from "../../../support/limiter-rig.ts";
import { recordedLog } from "../../../support/recorded-log.ts";

const LIMIT = "rate_limit: { requests_per_unit: 1000000, unit: second }";
const HOUR = 3_600;

function watched(descriptors: string) {
  const rig = new LimiterRig(`domain: edge\ndescriptors:\n  - { key: busy, ${LIMIT} }\n${descriptors}`);
  const watch = new LimitWatch({
    shapesOf: (domain) => rig.observer.unmatched.shapesOf(domain),
  });
  const look = () => runThrough(watch.look(rig.limiter.rules as RuleSet, rig.clock.nowUs()));
  look();
  return {
    rig,
    watch,
    /** So much later, after calls of another rule, looks again. */
    later(seconds: number, calls = 10_000) {
      const { stats } = rig.limiter.rules?.domains.get("edge") ?? {};
      if (stats !== undefined) stats.calls += calls - 1;
      rig.hit({ busy: "x" });
      rig.clock.advanceSeconds(seconds);
      look();
    },
    /** Calls as those that a deployment gets, a second apart. */
    come(...calls: readonly (readonly AskedDescriptor[])[]) {
      for (const call of calls) {
        rig.ask(call);
        rig.observer.unmatched.tell(recordedLog().log);
      }
    },
    dead: () => watch.dead.flatMap(({ rules }) => rules.map(({ id }) => id)),
    why: () => watch.dead[0]?.rules[0]?.why,
  };
}

const call = (entries: Readonly<Record<string, string>>) => [{ entries }];

test("a limit that has matched nothing is dead after an hour and 10,000 calls, not before", () => {
  const { later, dead } = watched(`  - { key: tenant, ${LIMIT} }\n`);
  later(HOUR, 9_999);
  expect(dead()).toEqual([]);
  later(60, 1);
  expect(dead()).toEqual(["edge/tenant"]);
  const other = watched(`  - { key: tenant, ${LIMIT} }\n`);
  other.later(HOUR - 1);
  expect(other.dead()).toEqual([]);
});

test("one that has matched is dead after a day without a match, and alive again with the next", () => {
  const { rig, later, dead, watch } = watched(`  - { key: tenant, ${LIMIT} }\n`);
  rig.hit({ tenant: "a" });
  later(60);
  later(24 * HOUR - 60);
  expect(dead()).toEqual([]);
  later(60);
  expect(dead()).toEqual(["edge/tenant"]);
  expect(watch.dead[0]?.rules[0]).toMatchObject({ calls: 20_000, where: "a.yaml:4:5" });
  rig.hit({ tenant: "a" });
  later(60);
  expect(dead()).toEqual([]);
});

test.each([
  ["a peek", { entries: { tenant: "a" }, hits: 0 }],
  ["a call that is refused", { entries: { tenant: "a" }, hits: 2_000_000 }],
])("%s is a match", (_, asked) => {
  const { later, dead, rig } = watched(`  - { key: tenant, ${LIMIT} }\n`);
  rig.ask([asked]);
  later(HOUR);
  expect(dead()).toEqual([]);
});

test("calls that bring limits of their own are matches of the rule's limits", () => {
  const { later, dead, rig } = watched(`  - key: a
    rate_limits:
      - { name: one, requests_per_unit: 9, unit: second }
      - { name: two, requests_per_unit: 9, unit: minute }
`);
  rig.ask([{ entries: { a: "x" }, override: { amount: 5, unit: Unit.minute } }]);
  later(HOUR);
  expect(dead()).toEqual([]);
});

test.each([
  { of: "exempt callers", change: { kind: "exempt", global: false }, plan: "free" },
  { of: "callers that use another tier", change: { kind: "use", name: "paid" }, plan: "free" },
  { of: "callers that are blocked", change: { kind: "block", shadow: false }, plan: "free" },
] as const)("a tier whose calls are all of $of is met, and no other is", ({ change, plan }) => {
  const { rig, later, dead } = watched(`  - { key: user, tier: { entry: plan, default: other } }
limits:
  free: [{ requests_per_unit: 1000000, unit: second }, { requests_per_unit: 9000000, unit: minute }]
  paid: [{ requests_per_unit: 2000000, unit: second }]
  other: [{ requests_per_unit: 3000000, unit: second }]
`);
  rig.set({ user: "u" }, change);
  rig.hit({ user: "u", plan });
  later(HOUR);
  const met = change.kind === "use" ? ["free", "paid"] : [plan];
  const tiers = ["free", "paid", "other"].filter((tier) => !met.includes(tier));
  expect(dead()).toEqual(tiers.map((tier) => `edge/user (${tier})`));
});

test("a rule that is marked as rare, or has no limit, is never dead", () => {
  const { later, dead } = watched(`  - { key: a, rarely: true, ${LIMIT} }
  - { key: b, rate_limit: { unlimited: true } }
  - { key: c, descriptors: [{ key: d, rarely: true, ${LIMIT} }] }
`);
  later(HOUR);
  expect(dead()).toEqual([]);
});

test("values of one_of are one rule, tiers are several", () => {
  const { rig, later, dead } = watched(`  - { key: ip, match: { one_of: [a, b, c] }, ${LIMIT} }
  - { key: user, tier: { entry: plan, default: free } }
limits:
  free: [{ requests_per_unit: 1000000, unit: second }]
  paid: [{ requests_per_unit: 2000000, unit: second }]
`);
  rig.hit({ ip: "b" });
  rig.hit({ user: "u" });
  later(HOUR);
  expect(dead()).toEqual(["edge/user (paid)"]);
});

test("a reload keeps what is known of rules that stay", () => {
  const rules = (more: string) =>
    `domain: edge\ndescriptors:\n  - { key: busy, ${LIMIT} }\n  - { key: old, ${LIMIT} }\n${more}`;
  const { rig, later, dead } = watched(`  - { key: old, ${LIMIT} }\n`);
  later(HOUR / 2);
  rig.useRules(rules(`  - { key: new, ${LIMIT} }\n`));
  later(HOUR / 2);
  expect(dead()).toEqual(["edge/old"]);
  later(HOUR);
  expect(dead()).toEqual(["edge/old", "edge/new"]);
});

test("calls at low priority are matches of their limit", () => {
  const priority = "priority: { entry: urgency, values: [high], high: 20% }";
  const { rig, later, dead } = watched(
    `  - { key: a, rate_limit: { requests_per_unit: 9, unit: second, ${priority} } }\n`,
  );
  rig.hit({ a: "x" });
  later(HOUR);
  expect(dead()).toEqual([]);
});

const TENANT = `  - { key: tenant, ${LIMIT} }\n`;
const PAIR = `  - { key: tenant, descriptors: [{ key: user, ${LIMIT} }] }\n`;
const GOLD = `  - { key: plan, value: gold, ${LIMIT} }\n`;

test.each([
  ["a name that holds it", TENANT, [{ tenant_id: "a" }], "calls came with 'tenant_id', but the rule wants 'tenant'"],
  ["another case", TENANT, [{ Tenant: "a" }], "calls came with 'Tenant', but the rule wants 'tenant'"],
  ["a slip", TENANT, [{ tennant: "a" }], "calls came with 'tennant', but the rule wants 'tenant'"],
  [
    "two names of which one is near",
    PAIR,
    [{ tenant: "a", userid: "b" }],
    "calls came with 'tenant', 'userid', but the rule wants 'tenant', 'user'",
  ],
  [
    "another order",
    PAIR,
    [{ user: "a", tenant: "b" }],
    "calls came with 'user', 'tenant', but the rule wants 'tenant', 'user'",
  ],
  [
    "one name that reads like two",
    PAIR,
    [{ "tenant,user": "a" }],
    "calls came with 'tenant,user', but the rule wants 'tenant', 'user'",
  ],
  ["too little", PAIR, [{ tenant: "a" }], "calls came with 'tenant', but the rule wants 'tenant', 'user'"],
  ["too much", TENANT, [{ tenant: "a", path: "/" }], "calls came with 'tenant', 'path', but the rule wants 'tenant'"],
  ["another value", GOLD, [{ plan: "silver" }], "calls came with 'plan', but none with 'plan=gold'"],
  [
    "nearly the value",
    GOLD,
    [{ plan: "silver" }, { plan: "Gold" }],
    "calls came with 'plan', but none with 'plan=gold'; one had 'plan=Gold'",
  ],
  [
    "another parent",
    PAIR,
    [{ zone: "a", user: "b" }],
    "calls came with 'zone', 'user', but the rule wants 'tenant', 'user'",
  ],
  ["nothing like it", TENANT, [{ path: "/" }], "no descriptor like it has come"],
  [
    "the likeliest of several",
    TENANT,
    [{ tenant: "a", path: "/" }, { tenant_id: "a" }],
    "calls came with 'tenant_id', but the rule wants 'tenant'",
  ],
])("names the cause: %s", (_, rules, calls, why) => {
  const deployment = watched(rules);
  deployment.come(...calls.map(call));
  deployment.later(HOUR);
  expect(deployment.why()).toBe(why);
});

test("a value that the rule hides is not shown, however near", () => {
  const deployment = watched(`  - { key: api_key, value: s3cret-1, hash_values: true, ${LIMIT} }\n`);
  deployment.come(call({ api_key: "s3cret-2" }));
  deployment.later(HOUR);
  expect(deployment.why()).toBe("calls came with 'api_key', but none with 'api_key=s3cret-1'");
});

test("entries that carry costs are none of a rule's", () => {
  const deployment = watched(`  - { key: tenant, cost: { entry: weight }, ${LIMIT} }\n`);
  deployment.come(call({ weight: "2", tenant_id: "a" }));
  deployment.later(HOUR);
  expect(deployment.why()).toBe("calls came with 'tenant_id', but the rule wants 'tenant'");
});

test.each([
  [
    "next to it",
    `${GOLD}  - { key: plan, ${LIMIT} }\n`,
    { plan: "silver" },
    "calls match 'plan' instead; none has 'plan=gold'",
  ],
  [
    "above it",
    `  - { key: a, ${LIMIT}, descriptors: [{ key: b, ${LIMIT} }] }\n`,
    { a: "x" },
    "calls match 'a' instead: they have no 'b' after it",
  ],
  [
    "below it",
    `  - { key: a, ${LIMIT}, descriptors: [{ key: b, ${LIMIT} }] }\n`,
    { a: "x", b: "y" },
    "calls match 'a/b' instead: they have more entries",
  ],
  [
    "below another parent",
    `  - { key: a, value: x, descriptors: [{ key: b, ${LIMIT} }] }\n  - { key: a, descriptors: [{ key: b, ${LIMIT} }] }\n`,
    { a: "y", b: "z" },
    "calls match 'a/b' instead; none has 'a=x/b'",
  ],
  [
    "spelt correctly next to it",
    `${TENANT}  - { key: tenent, ${LIMIT} }\n`,
    { tenant: "x" },
    "calls match 'tenant' instead; none has 'tenent'",
  ],
  [
    "below a parent that is spelt correctly",
    `${PAIR}  - { key: tenent, descriptors: [{ key: users, ${LIMIT} }] }\n`,
    { tenant: "x", user: "y" },
    "calls match 'tenant/user' instead; none has 'tenent/users'",
  ],
])("names the rule that calls match, %s", (_, rules, entries, why) => {
  const { rig, later, why: found } = watched(rules);
  rig.hit(entries);
  later(HOUR);
  expect(found()).toBe(why);
});

test("of very many dead rules the first are described and all counted", () => {
  const { later, watch } = watched(Array.from({ length: 50 }, (_, i) => `  - { key: k${i}, ${LIMIT} }\n`).join(""));
  later(HOUR);
  expect(watch.dead).toMatchObject([{ domain: "edge", count: 50 }]);
  expect(watch.dead[0]?.rules).toHaveLength(20);
});
