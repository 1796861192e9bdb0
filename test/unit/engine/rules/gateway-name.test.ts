// Words for limits of gateways: what each kind of key comes to, and that limits of one gateway can be told apart by them.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { compileRules } from "../../../../src/engine/rules/compile.ts";
import { explainRequest } from "../../../../src/engine/rules/explain.ts";
import { type GatewayEntry, gatewayName } from "../../../../src/engine/rules/gateway-name.ts";
import { resourceFile, type WireDescriptor } from "../../../support/resources.ts";
import { PlainStatsBook } from "../../../support/rules.ts";
import { runs } from "../../../support/runs.ts";

const same = (key: string): GatewayEntry => ({ key, value: key });
const any = (key: string): GatewayEntry => ({ key, value: "" });
const shop = same("httproute/default/shop/rule/0/match/0/shop_example_com");

describe("words for a gateway's limit", () => {
  test.each<[string, readonly GatewayEntry[]]>([
    ["route default/shop shop.example.com, rule 0, all requests", [shop, same("rule-0-match--1")]],
    ["route default/shop shop.example.com, rule 1, each value of match 0", [shop, any("rule-1-match-0")]],
    ["route default/shop shop.example.com, rule 1, match 0 acme", [shop, { key: "rule-1-match-0", value: "acme" }]],
    [
      "route default/shop shop.example.com, rule 2, match 0, match 1, method, path",
      [shop, ...["match-0", "match-1", "method", "path"].map((part) => same(`rule-2-${part}`))],
    ],
    [
      "route default/shop shop.example.com, addresses in 10.0.0.0/8, each address",
      [shop, { key: "masked_remote_address", value: "10.0.0.0/8" }, any("remote_address")],
    ],
    [
      "route default/shop shop.example.com, addresses outside 192.168.0.0/24",
      [shop, { key: "masked_remote_address", value: "invert:192.168.0.0/24" }],
    ],
    ["route a/b rule 1 match 2, rule 0, method", [same("grpcroute/a/b/rule/1/match/2/*"), same("rule-0-method")]],
    // Below a policy its own number counts, not the one among the rules that are shared.
    ["policy default/limits rule 2, match 0", [same("default/limits/rule/2"), same("rule-1-match-0")]],
    [
      "policy default/limits rule by-user, each value of match 0",
      [same("default/limits/rule/by-user"), any("rule-match-0")],
    ],
    [
      "route default/shop shop.example.com, policy default/limits rule 0, each value of match 0",
      [shop, same("default/limits/rule/0"), any("rule-0-match-0")],
    ],
    [
      "backend default/openai, model large, rule 0, header x-team red",
      [
        { key: "backend_name", value: "default/openai" },
        { key: "model_name_override", value: "large" },
        same("rule-0-x-team|red-match-0"),
      ],
    ],
    ["", [any("remote_address")]],
    ["", [{ key: "tenant", value: "httproute/default/shop/rule/0/match/0/x" }]],
    ["", []],
  ])("%s", (words, entries) => {
    expect(gatewayName(entries)).toBe(words);
  });

  const label = fc.stringMatching(/^[a-z]([a-z0-9-]{0,10}[a-z0-9])?$/);
  const small = fc.nat(3);
  const host = fc.oneof(
    fc.constant("*"),
    fc.array(label, { minLength: 1, maxLength: 4 }).map((parts) => parts.join("_")),
  );
  const route = fc
    .tuple(label, label, small, small, host)
    .map(([namespace, name, rule, match, of]) =>
      same(`httproute/${namespace}/${name}/rule/${rule}/match/${match}/${of}`),
    );
  const policy = fc
    .tuple(label, label, small)
    .map(([namespace, name, rule]) => same(`${namespace}/${name}/rule/${rule}`));
  const selectors = fc
    .record({
      rule: small,
      matches: fc.array(fc.oneof(fc.constant(same), fc.constant(any)), { maxLength: 3 }),
      method: fc.boolean(),
      path: fc.boolean(),
      range: fc.option(fc.constantFrom("10.0.0.0/8", "invert:10.0.0.0/8", "::/0"), { nil: undefined }),
      eachAddress: fc.boolean(),
    })
    .map(({ rule, matches, method, path, range, eachAddress }) => {
      const entries = matches.map((kind, i) => kind(`rule-${rule}-match-${i}`));
      if (method) entries.push(same(`rule-${rule}-method`));
      if (path) entries.push(same(`rule-${rule}-path`));
      if (range !== undefined) entries.push({ key: "masked_remote_address", value: range });
      if (range !== undefined && eachAddress) entries.push(any("remote_address"));
      return entries.length === 0 ? [same(`rule-${rule}-match--1`)] : entries;
    });
  const chain = fc.oneof(
    fc.tuple(route, selectors).map(([first, rest]) => [first, ...rest]),
    // One of them alone: its number stands in the policy's.
    fc.tuple(policy, selectors).map(([first, rest]) => [
      first,
      ...rest.map(({ key, value }) => {
        const at = (text: string) => text.replace(/^rule-\d+/, "rule-0");
        return { key: at(key), value: at(value) };
      }),
    ]),
  );

  // Promise(xds): Unnamed limits of a gateway get short names that tell them apart.
  test("tell any two limits of a gateway apart", () => {
    fc.assert(
      fc.property(chain, chain, (one, other) => {
        fc.pre(JSON.stringify(one) !== JSON.stringify(other));
        expect(gatewayName(one)).not.toBe(gatewayName(other));
      }),
      { numRuns: runs(2_000) },
    );
  });

  test("are what explain and metrics show, short and on one line; bucket and path stay as they are", () => {
    const text = fc.oneof(fc.string({ maxLength: 300 }), fc.constantFrom("a\nb", "\u202e", "%"));
    fc.assert(
      fc.property(chain, fc.option(text, { nil: undefined }), (entries, odd) => {
        const all = odd === undefined ? entries : [...entries, { key: `rule-0-match-9`, value: odd }];
        const levels = all.toReversed();
        const rate_limit = { unit: "HOUR", requests_per_unit: 3 };
        const tree = levels.reduce<WireDescriptor | undefined>(
          (below, entry) => (below === undefined ? { ...entry, rate_limit } : { ...entry, descriptors: [below] }),
          undefined,
        );
        const statsBook = new PlainStatsBook();
        const resource = resourceFile({ name: "edge", domain: "edge", descriptors: tree === undefined ? [] : [tree] });
        const { ruleSet } = compileRules([resource], { statsBook });
        const limit = ruleSet?.domains.get("edge")?.limits[0];
        if (ruleSet === undefined || limit === undefined) throw new Error("the chain has no limit");
        expect(limit.names.name).toBe("");
        expect(limit.keySuffix).toBe("}|sw/3600");
        // A byte below a space takes three.
        expect(limit.names.readableName.length).toBeLessThanOrEqual(600);
        expect([...limit.names.readableName].every((byte) => byte >= " " && byte !== "\x7f")).toBe(true);
        const [stats] = statsBook.stats.keys();
        expect(JSON.parse(stats ?? "[]").at(-1)).toBe(limit.names.readableName);
        const asked = all.map(({ key, value }) => ({ key, value: value === "" ? "x" : value }));
        const [found] = explainRequest(ruleSet, "edge", [asked]).descriptors[0]?.limits ?? [];
        expect(Buffer.from(found?.name ?? "")).toEqual(
          Buffer.from(Buffer.from(limit.names.readableName, "latin1").toString()),
        );
      }),
      { numRuns: runs(100) },
    );
  });
});
