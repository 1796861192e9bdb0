// What a control plane's messages can't say: words in metadata, and the defaults that a file gives its domain.

import { describe, expect, test } from "vitest";
import {
  ALGORITHM_NAMES,
  type Limit,
  ON_STORE_FAILURE_NAMES,
  SYNC_NAMES,
} from "../../../../src/engine/domain/limit.ts";
import { compileRules } from "../../../../src/engine/rules/compile.ts";
import { formatProblem } from "../../../../src/engine/rules/problems.ts";
import { parseFile } from "../../../../src/rule-sources/files/parse-file.ts";
import { resourceFile, type WireDescriptor } from "../../../support/resources.ts";
import { PlainStatsBook } from "../../../support/rules.ts";

/** A google.protobuf.Struct as proto-loader takes it. */
function struct(members: object): object {
  return { fields: Object.fromEntries(Object.entries(members).map(([key, value]) => [key, wireValue(value)])) };
}

function wireValue(value: unknown): object {
  if (typeof value === "string") return { stringValue: value };
  if (typeof value === "number") return { numberValue: value };
  if (typeof value === "boolean") return { boolValue: value };
  return { structValue: struct(value as object) };
}

const LIMIT = { unit: "MINUTE", requests_per_unit: 60 };

function compile(descriptors: readonly WireDescriptor[], file = "") {
  const files = file === "" ? [] : [parseFile({ name: "beside.yaml", bytes: Buffer.from(file) })];
  const { ruleSet, problems } = compileRules([resourceFile({ name: "r", domain: "edge", descriptors }), ...files], {
    statsBook: new PlainStatsBook(),
  });
  const rules = ruleSet?.domains.get("edge")?.root.rules;
  return { rules, rule: rules?.[0], limits: ruleSet?.domains.get("edge")?.limits, problems };
}

const shown = (limit: Limit | undefined) =>
  limit === undefined
    ? undefined
    : [
        ALGORITHM_NAMES[limit.algorithm],
        `${limit.amount}/${limit.windowSeconds}`,
        limit.burst,
        ON_STORE_FAILURE_NAMES[limit.policy.onStoreFailure],
        SYNC_NAMES[limit.policy.sync],
      ].join(" ");

function withWords(words: object, more: object = {}): WireDescriptor {
  return { key: "user", rate_limit: LIMIT, metadata: struct({ headgate: words, ...more }) };
}

describe("words in a resource's metadata", () => {
  test.each([
    { words: { algorithm: "token_bucket", burst: 90 }, is: "token_bucket 1/1 90 allow exact" },
    { words: { tokens_per_second: 0.5, burst: 3 }, is: "token_bucket 1/2 3 allow exact" },
    { words: { window: "30s", sync: "lease" }, is: "sliding_window 60/30 60 allow lease" },
    { words: { algorithm: "fixed_window", on_store_failure: "deny" }, is: "fixed_window 60/60 60 deny exact" },
  ])("$words", ({ words, is }) => {
    const { limits, problems } = compile([withWords(words)]);
    expect(problems).toEqual([]);
    expect(shown(limits?.[0])).toBe(is);
  });

  test("of the rule count, too, and leave the other metadata alone", () => {
    const { rule } = compile([withWords({ post_paid: true, hash_values: true, rarely: true }, { team: "blue" })]);
    expect(rule).toMatchObject({ isPostPaid: true, hashesValues: true, isRare: true, metadata: { team: "blue" } });
    expect(compile([withWords({ burst: 60, algorithm: "token_bucket" })]).rule?.metadata).toBeUndefined();
  });

  test("say in which parts a gateway reports costs", () => {
    const { rule, problems } = compile([withWords({ cost: { per: 1000 } })]);
    expect(problems).toEqual([]);
    expect(rule?.cost).toEqual({ entry: undefined, default: 1, max: 4_294_967_295_000, per: 1000 });
  });

  test("take limits by name from a file, in place of the resource's own", () => {
    const file = `domain: edge
limits:
  free: { tokens_per_second: 1 }
  gold: [{ name: rate, tokens_per_second: 9 }, { requests_per_unit: 5, unit: day }]
`;
    const used = compile([withWords({ use: "gold" })], file);
    expect(used.problems.map(formatProblem)).toEqual([
      expect.stringContaining("warning: limits: 'free' is not used by any rule"),
    ]);
    expect(used.limits?.map(shown)).toEqual(["token_bucket 9/1 9 allow exact", "sliding_window 5/86400 5 allow exact"]);
    const chosen = compile([withWords({ tier: { entry: "plan", default: "free" } })], file);
    expect(chosen.problems).toEqual([]);
    expect(chosen.limits?.map(({ names: { id } }) => id)).toEqual([
      "edge/user#free",
      "edge/user#gold/rate",
      "edge/user#gold/sliding_window/86400",
    ]);
  });

  // Promise(xds): A set is not rejected for a limit name that no file has.
  test.each([
    [
      { use: "gold" },
      /^resource r: .*headgate\.use: warning: use: no limits are named 'gold'; .*, so the resource's own limit applies$/,
    ],
    [{ tier: { entry: "plan", default: "gold" } }, /warning: default: no limits are named 'gold'/],
  ])("that name limits which no file has leave the resource's own in force: %o", (words, line) => {
    const { limits, problems } = compile([withWords(words)]);
    expect(problems.map(formatProblem)).toEqual([expect.stringMatching(line)]);
    expect(limits?.map(shown)).toEqual(["sliding_window 60/60 60 allow exact"]);
  });

  test.each([
    [{ brust: 4 }, /^resource r: descriptors\[0\]\.metadata\.headgate\.brust: error: unknown key 'brust'/],
    [{ unit: "hour" }, /headgate\.unit: error: 'unit' is not allowed in metadata\. The resource has its own field/],
    [{ burst: "many", algorithm: "token_bucket" }, /metadata\.headgate\.burst: error: burst: expected a whole number/],
    [{ sync: "leese" }, /metadata\.headgate\.sync: error: sync: expected one of .*lease/],
    [{ use: "gold", burst: 5 }, /headgate\.burst: error: 'burst' can't be combined with 'use'/],
  ])("that make no sense refuse the set: %o", (words, line) => {
    expect(compile([withWords(words)]).problems.map(formatProblem)).toContainEqual(expect.stringMatching(line));
  });
});

describe("defaults of a domain", () => {
  const DEFAULTS = "domain: edge\ndefaults: { algorithm: token_bucket, on_store_failure: local, sync: lease }\n";

  // Promise(xds): A file's defaults apply to a control plane's limits.
  test("hold for the limits of a control plane and of files, where they say nothing else", () => {
    const file = `${DEFAULTS}descriptors:
  - { key: a, on_store_failure: deny, rate_limit: { unit: hour, requests_per_unit: 3600, algorithm: fixed_window } }
  - { key: b, post_paid: true, rate_limit: { tokens_per_second: 2 } }
`;
    const { limits, problems } = compile([{ key: "user", rate_limit: LIMIT }], file);
    expect(problems.map(formatProblem)).toEqual([]);
    expect(limits?.map(shown)).toEqual([
      "token_bucket 1/1 60 local lease",
      "fixed_window 3600/3600 3600 deny lease",
      "token_bucket 2/1 2 local exact",
    ]);
  });

  test("give way to words in metadata, and say nothing of unlimited rules", () => {
    const descriptors = [
      withWords({ algorithm: "sliding_window", sync: "exact" }),
      { key: "x", rate_limit: { unlimited: true } },
    ];
    const { limits, problems } = compile(descriptors, DEFAULTS);
    expect(problems.map(formatProblem)).toEqual([]);
    expect(limits?.map(shown)).toEqual(["sliding_window 60/60 60 local exact"]);
  });

  test.each([
    { says: "", user: [false, true], tenant: [false, false] },
    { says: "post_paid: false", user: [false, false], tenant: [false, false] },
    { says: "post_paid: true", user: [true, false], tenant: [true, false] },
    { says: "post_paid: true, sync: lease", user: [true, false], tenant: [true, false] },
  ])("say what hits are that calls bring: '$says'", ({ says, user, tenant }) => {
    const file = `domain: edge\ndefaults: { ${says} }\ndescriptors:
  - { key: tenant, rate_limit: { unit: hour, requests_per_unit: 9 } }
  - { key: leased, rate_limit: { unit: hour, requests_per_unit: 9, sync: lease } }
  - { key: free, rate_limit: { unlimited: true } }
  - { key: own, post_paid: false, rate_limit: { unit: hour, requests_per_unit: 9 } }
`;
    const descriptors = [{ key: "user", rate_limit: LIMIT }, withWords({ post_paid: false })];
    const { rules, problems } = compile([descriptors[0] as WireDescriptor, { ...descriptors[1], key: "plain" }], file);
    expect(problems.map(formatProblem)).toEqual([]);
    const found = new Map(rules?.map((rule) => [rule.key, [rule.isPostPaid, rule.chargesGivenHits]]));
    expect(found.get("user")).toEqual(user);
    expect(found.get("tenant")).toEqual(tenant);
    for (const key of ["plain", "leased", "free", "own"]) expect(found.get(key)).toEqual([false, false]);
  });

  test.each(["", "post_paid: false,"])("leave limits with holds exact, whatever else the rule says: '%s'", (says) => {
    const rule = `{ key: held, ${says} hold: { id: r, ttl: 60s }, rate_limit: { unit: hour, requests_per_unit: 9, algorithm: fixed_window } }`;
    const { limits, problems } = compile([], `domain: edge\ndefaults: { sync: lease }\ndescriptors:\n  - ${rule}\n`);
    expect(problems.map(formatProblem)).toEqual([]);
    expect(limits?.map(shown)).toEqual(["fixed_window 9/3600 9 allow exact"]);
  });

  test("are refused where they make no sense", () => {
    const lines = compile(
      [],
      "domain: edge\ndefaults: { burst: 3, algorithm: token, post_paid: maybe }\n",
    ).problems.map(formatProblem);
    expect(lines).toContainEqual(expect.stringMatching(/beside.yaml:2:\d+: error: post_paid: expected true or false/));
    expect(lines).toContainEqual(
      expect.stringMatching(/beside.yaml:2:13: error: 'burst' is not allowed in 'defaults'/),
    );
  });
});
