// Holds for a control plane's rules, configured in a file next to them: which rules get one, under which key they count, and what calls of
// such a gateway then do.

import { describe, expect, test } from "vitest";
import { compileRules } from "../../../../src/engine/rules/compile.ts";
import { explainRequest } from "../../../../src/engine/rules/explain.ts";
import { formatProblem } from "../../../../src/engine/rules/problems.ts";
import type { Rule } from "../../../../src/engine/rules/rule-set.ts";
import { parseFile } from "../../../../src/rule-sources/files/parse-file.ts";
import { LimiterRig } from "../../../support/limiter-rig.ts";
import { resourceFile, type WireDescriptor } from "../../../support/resources.ts";

const HOLD = `domain: edge
defaults:
  algorithm: fixed_window
  hold:
    id: rule-*-match-1
    estimate: rule-*-match-2
    settle: { entry: rule-*-match-2, value: settle }
    default: 20
    max: 60
    ttl: 2m
`;

/** As Envoy Gateway sends the rules of a policy: one rule below another, the limit at the last. */
function chain(limit: object, ...keys: readonly string[]): WireDescriptor {
  const [key = "", ...later] = keys;
  return later.length === 0 ? { key, rate_limit: limit } : { key, descriptors: [chain(limit, ...later)] };
}

const entriesOf = (rule: number, ...more: readonly number[]) => more.map((match) => `rule-${rule}-match-${match}`);
const HUNDRED = { unit: "DAY", requests_per_unit: 100 };
const ROUTE = "default/llm/rule/0";
const BUDGET = chain(HUNDRED, ROUTE, ...entriesOf(0, 0, 1, 2));

function compile(descriptors: readonly WireDescriptor[], file = HOLD, rig?: LimiterRig) {
  const beside = parseFile({ name: "beside.yaml", bytes: Buffer.from(file) });
  const statsBook = (rig ?? new LimiterRig("domain: none")).statsBook;
  const { ruleSet, problems } = compileRules([resourceFile({ name: "r", domain: "edge", descriptors }), beside], {
    statsBook,
  });
  return { ruleSet, problems: problems.map(formatProblem), root: ruleSet?.domains.get("edge")?.root };
}

function openRig(descriptors: readonly WireDescriptor[] = [BUDGET], file = HOLD): LimiterRig {
  const rig = new LimiterRig("domain: none");
  const { ruleSet, problems } = compile(descriptors, file, rig);
  if (ruleSet === undefined) throw new Error(problems.join("\n"));
  rig.limiter.useRules(ruleSet);
  return rig;
}

/** Rules with limits, each with its path and what it says of holds. */
function held(rules: readonly Rule[] = []): unknown[] {
  return rules.flatMap((rule) => [
    ...(rule.hasLimit ? [[rule.path, rule.hold?.idEntry, rule.hold?.estimate?.entry, rule.limits.length]] : []),
    ...held(rule.children?.rules),
  ]);
}

const call = (tenant: string, id: string, says: string) => ({
  [ROUTE]: ROUTE,
  "rule-0-match-0": tenant,
  "rule-0-match-1": id,
  "rule-0-match-2": says,
});

describe("a hold in the defaults for a control plane's rules", () => {
  test("goes to the rules whose descriptors carry its id, which count for the entries before it", () => {
    const { root, problems } = compile([
      BUDGET,
      chain(HUNDRED, "default/llm/rule/1", ...entriesOf(1, 0, 1)),
      chain(HUNDRED, "default/llm/rule/12", ...entriesOf(12, 1), "masked_remote_address"),
      chain(HUNDRED, "default/llm/rule/3", ...entriesOf(3, 0)),
    ]);
    expect(problems).toEqual([]);
    expect(held(root?.rules)).toEqual([
      [`${ROUTE}/rule-0-match-0`, "rule-0-match-1", "rule-0-match-2", 1],
      ["default/llm/rule/1/rule-1-match-0", "rule-1-match-1", "rule-1-match-2", 1],
      ["default/llm/rule/12/masked_remote_address", "rule-12-match-1", "rule-12-match-2", 1],
      ["default/llm/rule/3/rule-3-match-0", undefined, undefined, 1],
    ]);
  });

  test("may limit how many are under way", () => {
    const rig = openRig([BUDGET], HOLD.replace("  hold:", "  concurrent: 2\n  hold:"));
    for (const id of ["a", "b"]) expect(rig.hit(call("acme", id, "1")).over).toBe(false);
    expect(rig.hit(call("acme", "c", "1")).over).toBe(true);
    rig.hit(call("acme", "a", "settle"), 1);
    expect(rig.hit(call("acme", "c", "1")).over).toBe(false);
  });

  test("that no rule takes is warned of, and so is one that only files have", () => {
    const said = /^beside\.yaml:4:3: warning: no rule from a control plane has the entry that 'id' names/;
    expect(compile([chain(HUNDRED, "a")]).problems).toEqual([expect.stringMatching(said)]);
    const own = "descriptors: [{ key: a, rate_limit: { unit: day, requests_per_unit: 1 } }]";
    expect(compile([], `${HOLD}${own}`).problems).toEqual([expect.stringMatching(said)]);
  });

  test.each([
    [
      "two limits would be one rule",
      [{ ...chain(HUNDRED, "a"), descriptors: [chain(HUNDRED, "rule-0-match-1")] }],
      HOLD,
      /beside\.yaml:4:3: error: .*two limits/,
    ],
    [
      "the ttl is missing",
      [BUDGET],
      HOLD.replace("    ttl: 2m\n", ""),
      /beside\.yaml:5:5: error: hold: 'ttl' is missing/,
    ],
    [
      "a name has two stars",
      [BUDGET],
      HOLD.replace("rule-*-match-1", "rule-*-match-*"),
      /error: hold: expected at most one '\*'/,
    ],
  ] as const)("is refused where %s", (_, descriptors, file, line) => {
    expect(compile(descriptors, file).problems).toContainEqual(expect.stringMatching(line));
  });
});

describe("calls of a gateway that marks their end by a value", () => {
  const left = (rig: LimiterRig, tenant: string) => rig.hit(call(tenant, "look", ""), 0).statuses[0]?.remaining;

  test("hold what they say, or the default, and pay what they report", () => {
    const rig = openRig();
    expect(rig.hit(call("acme", "a", "50")).over).toBe(false);
    expect(rig.hit(call("acme", "b", "unknown")).over).toBe(false);
    expect([left(rig, "acme"), left(rig, "other")]).toEqual([30, 100]);
    expect(rig.hit(call("acme", "c", "31")).over).toBe(true);
    rig.hit(call("acme", "a", "settle"), 7);
    rig.hit(call("acme", "b", "settle"), 25);
    expect(left(rig, "acme")).toBe(68);
  });

  test("without the mark only ask where they bring a number: of a refused call nothing is held or charged", () => {
    const rig = openRig();
    rig.hit(call("acme", "a", "60"));
    expect(rig.hit(call("acme", "b", "50")).over).toBe(true);
    // Its report, at once and when there would be room.
    rig.hit(call("acme", "b", "50"), 9);
    rig.hit(call("acme", "a", "settle"), 0);
    rig.hit(call("acme", "b", "50"), 9);
    expect(left(rig, "acme")).toBe(100);
    // A cost on the request still is refused where its estimate has no room.
    rig.hit(call("acme", "c", "60"));
    expect(rig.hit(call("acme", "d", "50"), 1).over).toBe(true);
  });

  test("are explained: a mark is one by its value", () => {
    const { ruleSet } = compile([BUDGET]);
    const says = (text: string) => {
      const entries = Object.entries(call("acme", "a", text)).map(([key, value]) => ({ key, value }));
      if (ruleSet === undefined) throw new Error("no rules");
      return explainRequest(ruleSet, "edge", [entries]).descriptors[0]?.says;
    };
    expect(says("50")).toMatch(/the rule '.*rule-0-match-0' applies$/);
    expect(says("settle")).toMatch(/settles a hold of the rule '.*rule-0-match-0'$/);
  });
});
