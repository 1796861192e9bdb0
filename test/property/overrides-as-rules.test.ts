// A limit that a call brings along takes the place of its rule's numbers and of nothing else: with the numbers that the rule
// has, every call is answered as without it, whatever else the rule says, and wherever it comes from.

import fc from "fast-check";
import { expect, test } from "vitest";
import { UNIT_NAMES, Unit } from "../../src/engine/domain/limit.ts";
import type { Take } from "../../src/engine/domain/take.ts";
import { compileRules } from "../../src/engine/rules/compile.ts";
import type { RuleSet } from "../../src/engine/rules/rule-set.ts";
import { MemoryStore } from "../../src/stores/memory/memory-store.ts";
import { type AskedDescriptor, LimiterRig } from "../support/limiter-rig.ts";
import { resourceFile, type WireDescriptor } from "../support/resources.ts";
import { PlainStatsBook, rulesFromYaml } from "../support/rules.ts";
import { runs } from "../support/runs.ts";

/** What both ways to ask have in common: an amount per window. */
const numbers = fc.record({
  amount: fc.oneof(fc.integer({ min: 0, max: 20 }), fc.constantFrom(1_000_000, 4_294_967_295)),
  unit: fc.constantFrom(Unit.second, Unit.minute, Unit.week),
});

const beside = fc.record(
  {
    sync: fc.constantFrom("exact", "lease"),
    on_store_failure: fc.constantFrom("allow", "local", "deny", "error"),
    retry_after_jitter: fc.constantFrom(0, 0.1, 0.5),
    priority: fc.constant({ entry: "class", high: "25%" }),
  },
  { requiredKeys: [] },
);
const words = fc.record(
  {
    shadow_mode: fc.boolean(),
    quota_mode: fc.boolean(),
    post_paid: fc.boolean(),
    hash_values: fc.boolean(),
    cost: fc.constantFrom({ entry: "weight", default: 2, max: 5 }, { entry: "weight", default: 9, max: 500, per: 4 }),
    metadata: fc.constant({ plan: "gold" }),
  },
  { requiredKeys: [] },
);

type Numbers = { readonly amount: number; readonly unit: number };

function fromFile({ amount, unit }: Numbers, limit: object, rule: object): RuleSet {
  const rate_limit = { requests_per_unit: amount, unit: UNIT_NAMES[unit], ...limit };
  // JSON is YAML, too.
  return rulesFromYaml(JSON.stringify({ domain: "edge", descriptors: [{ key: "user", ...rule, rate_limit }] }));
}

function fromControlPlane({ amount, unit }: Numbers, rule: object): RuleSet {
  const { shadow_mode = false, quota_mode = false }: WireDescriptor = rule;
  const rate_limit = { unit: UNIT_NAMES[unit]?.toUpperCase() ?? "", requests_per_unit: amount };
  const descriptors = [{ key: "user", shadow_mode, quota_mode, rate_limit }];
  const resource = resourceFile({ name: "edge", domain: "edge", descriptors });
  const { ruleSet } = compileRules([resource], { statsBook: new PlainStatsBook() });
  if (ruleSet === undefined) throw new Error("the resource does not compile");
  return ruleSet;
}

const ruleSets = fc
  .tuple(numbers, beside, words, fc.boolean())
  // A rule that is post-paid takes no lease, nor does a limit with a priority.
  .filter(([, { sync, priority }, { post_paid }]) => (post_paid !== true && priority === undefined) || sync !== "lease")
  .map(([rate, limit, rule, isFile]) => ({
    rate,
    rules: isFile ? fromFile(rate, limit, rule) : fromControlPlane(rate, rule),
  }));

const asked = fc.record(
  {
    user: fc.constantFrom("a", "b"),
    weight: fc.constantFrom("3", "900", "lots"),
    class: fc.constantFrom("high", "low"),
    hits: fc.oneof(fc.constantFrom(0, 1), fc.integer({ min: 2, max: 30 })),
    refund: fc.boolean(),
    /** Lets time pass first. */
    ms: fc.integer({ min: 0, max: 2_000 }),
  },
  { requiredKeys: ["user", "ms"] },
);

/** What the takes of a call ask, but for what tells the limits apart: names, and where hits are counted. */
function questionOf({ limit, mode, kind, cost, bucketKey, outcome, paid }: Take): object {
  const {
    policy: { sync, onStoreFailure, retryAfterJitter },
    amount,
    windowSeconds,
    algorithm,
    holdSeconds,
  } = limit;
  const by = { sync, onStoreFailure, retryAfterJitter, amount, windowSeconds, algorithm, holdSeconds };
  return { by, mode, kind, cost, bucketKey, outcome, paid };
}

// Promise(tiers): A limit that a call brings keeps the same part for high priority.
// Promise(calls): A limit that a call brings replaces its rule's numbers and nothing else.
test("a limit that a call brings along with its rule's numbers decides as the rule itself, hit for hit", () => {
  fc.assert(
    fc.property(ruleSets, fc.array(asked, { minLength: 1, maxLength: 12 }), ({ rate, rules }, calls) => {
      const rigs = [false, true].map((brings) => {
        const rig = new LimiterRig("domain: none", {
          openStore: (clock) => new MemoryStore({ clock, bucketsMax: 16 }),
        });
        rig.limiter.useRules(rules);
        return { rig, brings };
      });
      for (const { ms, user, weight, class: priority, ...said } of calls) {
        // An entry that says nothing to the rules would lead past them.
        const says = rules.domains.get("edge")?.costEntries ?? new Set();
        const entries = {
          user,
          ...(weight === undefined || !says.has("weight") ? {} : { weight }),
          ...(priority === undefined || !says.has("class") ? {} : { class: priority }),
        };
        const answers = rigs.map(({ rig, brings }) => {
          rig.clock.setUs(rig.clock.nowUs() + ms * 1_000);
          const descriptor: AskedDescriptor = { entries, ...said, ...(brings ? { override: rate } : {}) };
          const call = rig.begin([descriptor], 0, "edge");
          rig.limiter.decide(call, Number.POSITIVE_INFINITY);
          const takes = call.group.takes.slice(0, call.group.size).map(questionOf);
          const { overLimit, statuses, statusCount } = call.decision;
          const shown = statuses
            .slice(0, statusCount)
            .map((status) => [status.overLimit, status.remaining, status.resetSeconds]);
          return { takes, overLimit, shown, wasShadowed: call.wasShadowed, metadata: call.rules[0]?.metadata };
        });
        expect(answers[1]).toEqual(answers[0]);
      }
    }),
    { numRuns: runs(150) },
  );
});
