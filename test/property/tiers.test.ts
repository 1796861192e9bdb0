// A rule with a tier answers each call as a rule would that takes the limits of that call's tier, and was edited from one to the
// other between calls: who changes the plan keeps what was spent wherever an edited rule does.

import fc from "fast-check";
import { expect, test } from "vitest";
import { ALGORITHM_NAMES, WRITTEN_ALGORITHMS } from "../../src/engine/domain/limit.ts";
import { MemoryStore } from "../../src/stores/memory/memory-store.ts";
import { type AskedDescriptor, LimiterRig } from "../support/limiter-rig.ts";
import { runs } from "../support/runs.ts";

const limit = fc
  .record({
    algorithm: fc.constantFrom(...WRITTEN_ALGORITHMS.map((algorithm) => ALGORITHM_NAMES[algorithm])),
    requests_per_unit: fc.integer({ min: 0, max: 30 }),
    window: fc.constantFrom("1s", "60s"),
    priority: fc.option(fc.constant({ entry: "class", high: "30%" }), { nil: undefined }),
  })
  .map(({ priority, ...numbers }) => ({
    ...numbers,
    ...(numbers.requests_per_unit > 1 && priority !== undefined ? { priority } : {}),
  }));
const several = fc
  .array(limit, { minLength: 1, maxLength: 3 })
  .map((limits) => limits.map((one, i) => ({ ...one, name: `n${i}` })));
const PLANS = ["free", "gold", "silver plus", "staff"] as const;
const limits = fc.record({
  free: limit,
  gold: fc.oneof(limit, several),
  "silver plus": fc.oneof(limit, several),
  staff: fc.oneof(limit, fc.constant({ unlimited: true })),
});
const words = fc.record(
  {
    cost: fc.constant({ entry: "weight", default: 2 }),
    post_paid: fc.boolean(),
    shadow_mode: fc.boolean(),
    quota_mode: fc.boolean(),
    hash_values: fc.boolean(),
    on_store_failure: fc.constantFrom("deny", "local"),
  },
  { requiredKeys: [] },
);
const asked = fc.record(
  {
    tenant: fc.constantFrom("a", "b"),
    plan: fc.constantFrom(...PLANS, "iron", "constructor", ""),
    class: fc.constantFrom("high", "low"),
    weight: fc.constantFrom("3", "9"),
    hits: fc.integer({ min: 0, max: 12 }),
    refund: fc.boolean(),
    override: fc.constant({ amount: 6, unit: 2 }),
    ms: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 40_000 })),
    /** Where the plan stands among the entries. */
    isPlanFirst: fc.boolean(),
  },
  { requiredKeys: ["tenant", "ms"] },
);
// JSON is YAML, too.
const rulesOf = (limits: object, rule: object) =>
  JSON.stringify({ domain: "edge", limits, descriptors: [{ key: "tenant", ...rule }] });

function newRig(rules: string): LimiterRig {
  return new LimiterRig(rules, { openStore: (clock) => new MemoryStore({ clock, bucketsMax: 64 }) });
}

/** The entries of a call, those left out that would lead past the rule: no limit in force speaks of them. */
function entriesOf(said: Readonly<Record<string, string | undefined>>, rig: LimiterRig): Record<string, string> {
  const known = rig.limiter.rules?.domains.get("edge")?.costEntries ?? new Set();
  const entries = Object.entries(said).filter(
    ([key, value]) => value !== undefined && (key === "tenant" || known.has(key)),
  );
  return Object.fromEntries(entries) as Record<string, string>;
}

/** The rule with the limits of one tier alone. */
function editedRules(limits: Readonly<Record<string, object>>, inForce: string, words: object, isReplaced: boolean) {
  if (!("unlimited" in (limits[inForce] as object))) return rulesOf(limits, { ...words, use: inForce });
  // The call's own limit replaces those of the tier, so any will do.
  const any = { requests_per_unit: 1, window: "1s" };
  if (isReplaced) return rulesOf({ ...limits, any }, { ...words, use: "any" });
  // A rule that is only unlimited can't have the other words.
  const kept = Object.entries(words).filter(([word]) => /_mode$|hash/.test(word));
  return rulesOf(limits, { ...Object.fromEntries(kept), use: inForce });
}

// Promise(tiers): An unknown plan gets the default's limits.
// Promise(tiers): A caller whose tier changes keeps what it spent, if the limit has the same shape.
// Promise(tiers): A tier answers as the rule would with that tier's limits.
test("a tier answers as if the rule had been edited to the limits of each call's tier", () => {
  const seen = { refused: 0, changed: 0 };
  fc.assert(
    fc.property(limits, words, fc.array(asked, { minLength: 1, maxLength: 10 }), (limits, words, calls) => {
      const tiered = newRig(rulesOf(limits, { ...words, tier: { entry: "plan", default: "free" } }));
      const edited = newRig(rulesOf(limits, { ...words, use: "free" }));
      let before = "free";
      for (const { ms, tenant, plan, class: priority, weight, isPlanFirst, ...more } of calls) {
        const inForce = PLANS.find((name) => name === plan) ?? "free";
        if (inForce !== before) seen.changed++;
        before = inForce;
        edited.useRules(editedRules(limits, inForce, words, more.override !== undefined));
        const answers = [tiered, edited].map((rig) => {
          rig.clock.setUs(rig.clock.nowUs() + ms * 1_000);
          const said = isPlanFirst === true ? { plan, tenant } : { tenant, plan };
          const descriptor = { entries: entriesOf({ ...said, class: priority, weight }, rig), ...more };
          return rig.ask([descriptor as AskedDescriptor]);
        });
        expect(answers[0]).toEqual(answers[1]);
        if (answers[0]?.over) seen.refused++;
      }
    }),
    { numRuns: runs(250) },
  );
  expect(Math.min(seen.refused, seen.changed)).toBeGreaterThan(runs(30));
});
