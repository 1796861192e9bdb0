// What `headgate check` hints at, and that the rules really do what the hints say.

import { describe, expect, test } from "vitest";
import { MemoryStore } from "../../../../src/stores/memory/memory-store.ts";
import { ruleHints } from "../../../../src/tools/cli/rule-hints.ts";
import { LimiterRig, type RigOptions } from "../../../support/limiter-rig.ts";
import { rulesFromYaml } from "../../../support/rules.ts";

const yaml = (...rules: readonly string[]) =>
  `domain: edge\ndescriptors:\n${rules.map((rule) => `  - { ${rule} }\n`).join("")}`;
const LIMIT = "rate_limit: { requests_per_unit: 500, unit: minute }";

function hintsOf(text: string, { compatible = false, stopsAtOver = false }: RigOptions = {}): readonly string[] {
  return ruleHints(rulesFromYaml(text, { compatible }), { compatibilityMode: compatible, stopsAtOver });
}

const rigOf = (text: string, options: RigOptions = {}) =>
  new LimiterRig(text, { ...options, openStore: (clock) => new MemoryStore({ clock }) });

describe("addresses", () => {
  test.each([
    "remote_address",
    "masked_remote_address",
    "ip",
    "client-ip",
    "X-Forwarded-For",
    "x_real_ip",
    "CF-Connecting-IP",
  ])("'%s' looks like one until its rule says so", (key) => {
    expect(hintsOf(yaml(`key: ${key}, ${LIMIT}`))).toEqual([
      `'${key}' looks like an address (a.yaml:3:5): an IPv6 host has 2^64 of them, each a caller of its own; write address: { ipv6: 64 } at its rule`,
    ]);
    expect(hintsOf(yaml(`key: ${key}, value: 192.0.2.1, address: true, ${LIMIT}`, `key: ${key}, ${LIMIT}`))).toEqual(
      [],
    );
  });

  test.each(["tenant", "address_book", "recipe", "path"])("'%s' does not", (key) => {
    expect(hintsOf(yaml(`key: ${key}, ${LIMIT}`))).toEqual([]);
  });
});

describe("a steady pace", () => {
  /** Of 200 calls of a caller who leaves 1% more between calls than the limit demands. */
  function refusedAtPace(amount: number, words: string): number {
    const rig = rigOf(yaml(`key: k, rate_limit: { requests_per_unit: ${amount}, unit: hour${words} }`));
    let refused = 0;
    for (let i = 0; i < 200; i++) {
      if (rig.hit({ k: "a" }).over) refused++;
      rig.clock.setUs(rig.clock.nowUs() + Math.ceil((3_600_000_000 / amount) * 1.01));
    }
    return refused;
  }

  test.each([1, 2, 5, 10, 20])(
    "of %d per hour is refused by a sliding window and not by a log, as the hint says",
    (amount) => {
      const rule = (words: string) => yaml(`key: k, rate_limit: { requests_per_unit: ${amount}, unit: hour${words} }`);
      const hint = expect.stringContaining(
        "refuses callers who keep its pace, about one call in limit + 1 (1 limit, the first edge/k)",
      );
      expect(hintsOf(rule(""))).toEqual([hint]);
      expect(hintsOf(rule(", algorithm: sliding_log"))).toEqual([]);
      expect(refusedAtPace(amount, "") / 200).toBeGreaterThan(0.6 / (amount + 1));
      expect(refusedAtPace(amount, ", algorithm: sliding_log")).toBe(0);
    },
  );

  test("has no hint where it costs less than five in a hundred, and where nothing slides", () => {
    const rules = [
      "21, unit: hour",
      "1, unit: hour, algorithm: token_bucket",
      "1, unit: hour, algorithm: fixed_window",
      "0, unit: hour",
    ];
    for (const words of rules) expect(hintsOf(yaml(`key: k, rate_limit: { requests_per_unit: ${words} }`))).toEqual([]);
  });
});

test.each([
  { hold: "max: 2000", most: 2000 },
  { hold: "max: 20000, per: 10", most: 2000 },
  { hold: "max: 1000", most: undefined },
  { hold: "default: 5", most: undefined },
])("an estimate that may pass the limit, by { $hold }, is refused for ever, as the hint says", ({ hold, most }) => {
  const limit = "rate_limit: { requests_per_unit: 1000, unit: hour, algorithm: token_bucket }";
  const text = yaml(`key: model, hold: { id: r, estimate: tokens, ttl: 60s, ${hold} }, ${limit}`);
  const hint = `hold: max lets an estimate be ${most}, but edge/model allows 1000 (a.yaml:3:5): larger estimates are refused for ever; lower max to the limit`;
  expect(hintsOf(text)).toEqual(most === undefined ? [] : [hint]);
  expect(rigOf(text).hit({ model: "m", r: "1", tokens: "20000" }).over).toBe(hold !== "max: 1000");
});

describe("COMPATIBILITY_MODE", () => {
  const both = [{ entries: { a: "1" } }, { entries: { b: "1" } }];
  const roomy = { entries: { c: "1" } };
  const limitOf = (amount: number) => `rate_limit: { requests_per_unit: ${amount}, unit: hour }`;

  test.each(["shadow", "quota"])(
    "a %s rule that is over lifts other limits where counting stops, as the hint says",
    (kind) => {
      const text = yaml(
        `key: a, ${kind}_mode: true, ${limitOf(5)}`,
        `key: b, ${limitOf(20)}`,
        `key: c, quota_mode: true, ${limitOf(999)}`,
      );
      const options = { compatible: true, stopsAtOver: true };
      expect(hintsOf(text, options)).toEqual([
        expect.stringContaining(`a ${kind} rule that is over (a.yaml:3:5) keeps`),
      ]);
      const rig = rigOf(text, options);
      const passed = Array.from({ length: 200 }, () => rig.ask([...both, roomy]).over).filter((over) => !over).length;
      expect(passed).toBe(200);
      expect(hintsOf(text, { compatible: true })).toEqual([]);
      expect(hintsOf(text, { stopsAtOver: true }).join()).not.toContain("STOP_CACHE_KEY");
    },
  );

  test("an unlimited quota rule is no room for the others, as the hint says", () => {
    const text = yaml(
      `key: a, quota_mode: true, ${limitOf(5)}`,
      "key: b, quota_mode: true, rate_limit: { unlimited: true }",
    );
    expect(hintsOf(text, { compatible: true })).toEqual([
      expect.stringContaining("does not count an unlimited quota rule (a.yaml:4:5)"),
    ]);
    const passedOf15 = (options: RigOptions) => {
      const rig = rigOf(text, options);
      return Array.from({ length: 15 }, () => rig.ask(both).over).filter((over) => !over).length;
    };
    expect([passedOf15({ compatible: true }), passedOf15({})]).toEqual([5, 15]);
  });
});
