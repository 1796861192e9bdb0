// Limits that rules take by name, always (`use`) or by an entry of the descriptor (`tier`): whose apply, what they share,
// and what else the rule says of them. test/property/tiers.test.ts holds both ways equal.

import { describe, expect, test } from "vitest";
import { type AskedDescriptor, LimiterRig } from "../../../support/limiter-rig.ts";
import { rulesFromYaml } from "../../../support/rules.ts";

const LIMITS = `
domain: edge
limits:
  free: { requests_per_unit: 10, unit: month, algorithm: fixed_window }
  gold: { requests_per_unit: 100, unit: month, algorithm: fixed_window }
  silver: [{ name: rate, requests_per_unit: 2, unit: second }, { requests_per_unit: 50, unit: month, algorithm: fixed_window }]
  staff: { unlimited: true }
`;
const rulesOf = (words: string) => `${LIMITS}descriptors:\n  - { key: tenant, ${words} }\n`;
const TIER = rulesOf("tier: { entry: plan, default: free }");
const of = (plan?: string, more: object = {}): AskedDescriptor => ({
  entries: { tenant: "acme", ...(plan === undefined ? {} : { plan }) },
  ...more,
});

describe("a rule with a tier", () => {
  test("counts each tier by itself, under its name", () => {
    const rig = new LimiterRig(TIER);
    for (const plan of ["free", "gold", "gold", "iron"]) rig.ask([of(plan)]);
    const hits = [...rig.statsBook.stats].map(([name, { totalHits }]) => [name, totalHits]);
    expect(Object.fromEntries(hits)).toMatchObject({ "edge|tenant|free": 2, "edge|tenant|gold": 2 });
  });

  // Promise(tiers): Callers choose only among the limits that the rule names.
  test("chooses among those limits only that it names", () => {
    const rig = new LimiterRig(rulesOf("tier: { entry: plan, default: free, among: [gold] }"));
    const governing = (plan: string) => rig.ask([of(plan)]).governing;
    expect(["gold", "free", "silver", "staff"].map(governing)).toEqual([
      "edge/tenant#gold",
      "edge/tenant#free",
      "edge/tenant#free",
      "edge/tenant#free",
    ]);
  });

  test("is reached by the values of its own and leads on to rules below, whatever the tier", () => {
    const rig = new LimiterRig(`${LIMITS}descriptors:
  - key: tenant
    value: acme
    tier: { entry: plan, default: gold }
    descriptors:
      - { key: user, tier: { entry: plan, default: free } }
`);
    const user = (plan: string) => rig.ask([{ entries: { tenant: "acme", plan, user: "ann" } }]).governing;
    expect([rig.ask([of()]).governing, rig.ask([of("free")]).governing]).toEqual([
      "edge/tenant=acme#gold",
      "edge/tenant=acme#free",
    ]);
    expect([user("gold"), user("none")]).toEqual(["edge/tenant=acme/user#gold", "edge/tenant=acme/user#free"]);
  });

  test("settles a hold that was paid under another tier", () => {
    const rig = new LimiterRig(
      rulesOf("hold: { id: id, ttl: 60s }, concurrent: 1, tier: { entry: plan, default: free, among: gold }"),
    );
    const held = (plan: string, more: object, hits: number) =>
      of(plan, { entries: { tenant: "acme", plan, id: "r", ...more }, hits });
    expect(rig.ask([held("free", {}, 9)])).toMatchObject({ over: false });
    expect(rig.ask([held("gold", { id: "s" }, 1)])).toMatchObject({
      over: true,
      governing: "edge/tenant#gold/concurrent",
    });
    expect(rig.ask([held("gold", { settle: "1" }, 4)]).over).toBe(false);
    expect(rig.ask([of("free", { hits: 0 })]).statuses[0]?.remaining).toBe(6);
  });

  test("replaces limits by name, and is replaced, as the tier in force says", () => {
    const rig = new LimiterRig(`
domain: edge
limits:
  free: { name: own, requests_per_unit: 10, unit: month }
  gold: { unlimited: true, name: own, replaces: [{ name: common }] }
descriptors:
  - { key: tenant, tier: { entry: plan, default: free } }
  - { key: path, rate_limit: { name: common, requests_per_unit: 1, unit: month } }
`);
    const path = { entries: { path: "/" } };
    expect([rig.ask([of("free"), path]).over, rig.ask([of("free"), path]).over]).toEqual([false, true]);
    expect(rig.ask([of("gold"), path]).over).toBe(false);
  });

  test("puts callers' values into metric labels where the rule says so, the tier not among them", () => {
    const rig = new LimiterRig(rulesOf("detailed_metric: true, tier: { entry: plan, default: free }"));
    rig.ask([of("gold")]);
    expect(rig.statsBook.stats.get("edge|tenant_acme|gold")).toMatchObject({ totalHits: 1 });
  });

  test("counts no counters of the reference's under COMPATIBILITY_MODE", () => {
    const rig = new LimiterRig(
      "domain: edge\nlimits: { free: { requests_per_unit: 10, unit: month } }\ndescriptors: [{ key: tenant, use: free }]",
      { compatible: true },
    );
    expect(rig.ask([of()])).toMatchObject({ governing: "edge/tenant#free" });
    expect(rig.store.seen).toEqual([["{edge|tenant=acme}|sw/2592000"]]);
  });
});

describe("named limits", () => {
  test("hold for all files of a domain", () => {
    const rig = new LimiterRig(TIER);
    const files = [LIMITS, "domain: edge\ndescriptors: [{ key: tenant, use: gold }]"];
    rig.limiter.useRules(rulesFromYaml(files, { mergeDomains: true }));
    expect(rig.ask([of()]).governing).toBe("edge/tenant#gold");
  });
});
