// Hits that descriptors bring along, on rules of a control plane, and on rules of files that say `charge_given_hits`: a gateway's requests bring none, its peeks 0, and its reports
// at the end of a stream what the answer has cost. An exact ledger says what each must come to.

import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { compileRules } from "../../src/engine/rules/compile.ts";
import { parseFile } from "../../src/rule-sources/files/parse-file.ts";
import { MemoryStore } from "../../src/stores/memory/memory-store.ts";
import { LimiterRig } from "../support/limiter-rig.ts";
import { resourceFile, type WireDescriptor } from "../support/resources.ts";
import { runs } from "../support/runs.ts";

const LIMIT = 20;

function rigOf(descriptors: readonly WireDescriptor[], beside = ""): LimiterRig {
  const rig = new LimiterRig("domain: none", { openStore: (clock) => new MemoryStore({ clock }) });
  const files = beside === "" ? [] : [parseFile({ name: "beside.yaml", bytes: Buffer.from(beside) })];
  const resource = resourceFile({ name: "edge", domain: "edge", descriptors });
  const { ruleSet, problems } = compileRules([resource, ...files], { statsBook: rig.statsBook });
  if (ruleSet === undefined) throw new Error(JSON.stringify(problems));
  rig.limiter.useRules(ruleSet);
  return rig;
}

const PER_HOUR: WireDescriptor = { key: "user", rate_limit: { unit: "HOUR", requests_per_unit: LIMIT } };
/** What a call's descriptor says of its hits. */
const given = fc.oneof(fc.constant(undefined), fc.constant(0), fc.integer({ min: 1, max: LIMIT * 2 }));

describe("hits that a descriptor brings along, on rules of a control plane,", () => {
  // What a message can't say the operator may: whether hits are the cost of a request, or what was used. Whoever asks for
  // admission pays the global limit, be it one call in all of them.
  interface Meaning {
    readonly says: string;
    readonly isOver: (hits: number | undefined, left: number) => boolean;
    readonly charged: (hits: number | undefined, isOver: boolean) => number;
    readonly admits: (hits: number | undefined) => boolean;
  }
  const meanings: readonly Meaning[] = [
    {
      says: "",
      isOver: (hits, left) => Math.max(1, hits ?? 1) > left,
      charged: (hits, isOver) => hits ?? (isOver ? 0 : 1),
      admits: (hits) => hits === undefined || hits === 0,
    },
    {
      says: "defaults: { post_paid: false }\n",
      isOver: (hits, left) => Math.max(1, hits ?? 1) > left,
      charged: (hits, isOver) => (isOver ? 0 : (hits ?? 1)),
      admits: (hits) => hits !== 0,
    },
    {
      says: "defaults: { post_paid: true }\n",
      isOver: (hits, left) => hits === 0 && left < 1,
      charged: (hits) => hits ?? 1,
      admits: (hits) => hits === 0,
    },
  ];
  const GLOBAL = 1_000;

  // Promise(xds): Reported hits are charged, whatever is left.
  // Promise(xds): Operators say whether hits are costs or reports; calls that ask for admission pay the global limit.
  test.each(meanings)("mean what the domain's file says: '$says'", ({ says, isOver, charged, admits }) => {
    const beside = `domain: edge\n${says}global_limit: { requests_per_unit: ${GLOBAL}, unit: hour }\n`;
    const limits = fc.constantFrom("the rule's", "one on the rule", ...(says === "" ? ["one without a rule"] : []));
    fc.assert(
      fc.property(fc.array(given, { maxLength: 30 }), limits, (calls, of) => {
        const rig = rigOf([PER_HOUR], beside);
        let used = 0;
        let admitted = 0;
        for (const hits of calls) {
          const expected = isOver(hits, LIMIT - used);
          const override = of === "the rule's" ? {} : { override: { amount: LIMIT, unit: 3 } };
          const entries = of === "one without a rule" ? { tenant: "t" } : { user: "a" };
          const asked = { entries, ...override, ...(hits === undefined ? {} : { hits }) };
          const { over, statuses } = rig.ask([asked]);
          used += charged(hits, expected);
          const left = hits === 0 ? statuses[0]?.remaining : Math.max(0, LIMIT - used);
          expect([over, statuses[0]?.remaining]).toEqual([expected, left]);
          if (!expected && admits(hits)) admitted++;
        }
        // A descriptor that leads to no rule asks for one call, and shows what is left of the global limit.
        expect(rig.ask([{ entries: { other: "x" } }]).statuses[0]?.remaining).toBe(GLOBAL - admitted - 1);
      }),
      { numRuns: runs(60) },
    );
  });

  // Promise(limits): A rule of a file with `charge_given_hits` counts as a control plane's: reports are charged, whatever is left.
  test("mean the same on a rule of a file with charge_given_hits", () => {
    const file = `domain: edge
descriptors:
  - { key: user, charge_given_hits: true, rate_limit: { unit: hour, requests_per_unit: ${LIMIT} } }`;
    let charged = 0;
    fc.assert(
      fc.property(fc.array(given, { minLength: 10, maxLength: 30 }), fc.boolean(), (calls, isOverride) => {
        const rigs = [rigOf([PER_HOUR]), new LimiterRig(file, { openStore: (clock) => new MemoryStore({ clock }) })];
        for (const hits of calls) {
          const override = isOverride ? { override: { amount: LIMIT, unit: 3 } } : {};
          const asked = { entries: { user: "a" }, ...override, ...(hits === undefined ? {} : { hits }) };
          const [plane, own] = rigs.map((rig) => rig.ask([asked]));
          expect(own).toEqual(plane);
          if (own?.over === true && (hits ?? 0) > 0) charged++;
        }
      }),
      { numRuns: runs(60) },
    );
    expect(charged).toBeGreaterThan(runs(60));
  });

  test("bite: a stream whose report is larger than what is left closes the gate for the next one", () => {
    const rig = rigOf([PER_HOUR]);
    expect(rig.hit({ user: "a" }, 0).over).toBe(false);
    expect(rig.hit({ user: "a" }, 500).over).toBe(true);
    expect(rig.hit({ user: "a" }, 0).over).toBe(true);
    const stats = [...rig.statsBook.stats.values()].find(({ totalHits }) => totalHits > 0);
    expect(stats).toMatchObject({ totalHits: 500, overLimit: 500, withinLimit: 0 });
  });
});
