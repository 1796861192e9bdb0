// A control plane's resource means what a rules file with the same words means, and its problems say where they are in it.

import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { LimitStats } from "../../../../src/engine/domain/stats.ts";
import { compileRules } from "../../../../src/engine/rules/compile.ts";
import { formatProblem } from "../../../../src/engine/rules/problems.ts";
import { parseFile } from "../../../../src/rule-sources/files/parse-file.ts";
import { resourceBytes, resourceFile, type WireConfig, type WireDescriptor } from "../../../support/resources.ts";
import { runs } from "../../../support/runs.ts";

const OPTIONS = { statsBook: { statsOf: () => new LimitStats() } };
const compiled = (config: WireConfig | Buffer) => compileRules([resourceFile(config)], OPTIONS);
const linesOf = (config: WireConfig | Buffer) => compiled(config).problems.map(formatProblem);

/** A limit of a chain as Envoy Gateway writes it. */
const CHAIN: WireConfig = {
  name: "default/eg/http",
  domain: "default/eg/http",
  descriptors: [
    {
      key: "route",
      value: "route",
      shadow_mode: true,
      descriptors: [{ key: "rule-0-match-0", shadow_mode: true, rate_limit: { unit: "MINUTE", requests_per_unit: 3 } }],
    },
  ],
};

describe("a resource", () => {
  const word = fc.constantFrom("a", "b", "c*", "d_e", "\u00fc", "x y");
  const named = {
    name: fc.constantFrom("", "n1", "n2"),
    replaces: fc.constantFrom([], [{ name: "n3" }], [{ name: "n3" }, { name: "n4" }]),
  };
  const limit = fc.oneof(
    fc.record({
      unit: fc.constantFrom("SECOND", "MINUTE", "HOUR", "DAY", "MONTH", "YEAR", "WEEK"),
      requests_per_unit: fc.constantFrom(0, 1, 7, 4_294_967_295),
      ...named,
    }),
    fc.record({ unlimited: fc.constant(true), ...named }),
  );
  const rule = {
    key: word,
    // A value that is its key is shown once, which a file does not do.
    value: fc.constantFrom("", "v", "w*", "\u00fc v"),
    rate_limit: limit,
    shadow_mode: fc.boolean(),
    quota_mode: fc.boolean(),
    detailed_metric: fc.boolean(),
  };
  const leaf = fc.record({ ...rule, descriptors: fc.constant([]) });
  const inner = fc.record({ ...rule, descriptors: fc.array(leaf, { maxLength: 2 }) });
  const descriptor = fc.record({ ...rule, descriptors: fc.array(inner, { maxLength: 2 }) });

  // Promise(xds): A resource means what a file with the same words means.
  test("compiles to the rules that a file with the same words compiles to", () => {
    fc.assert(
      fc.property(fc.array(descriptor, { maxLength: 3 }), (descriptors) => {
        const config = { name: "r", domain: "edge", descriptors };
        const file = parseFile({ name: "r.yaml", bytes: Buffer.from(yamlOf(config)) });
        const ofFile = compileRules([file], OPTIONS);
        const ofResource = compiled(config);
        expect(shape(ofResource.ruleSet)).toEqual(shape(ofFile.ruleSet));
        const errors = (result: typeof ofFile) =>
          result.problems
            .filter(({ severity }) => severity === "error")
            .map(({ message }) => message.split(" is already defined at ")[0])
            .sort();
        expect(errors(ofResource)).toEqual(errors(ofFile));
      }),
      { numRuns: runs(100) },
    );
  });

  test("of a gateway has no warnings: neither for modes on levels without a limit, nor for values that no route has", () => {
    expect(linesOf(CHAIN)).toEqual([]);
  });

  test.each<[string, WireConfig, RegExp]>([
    ["no domain", { name: "x" }, /^resource x: domain: error: the domain is missing or empty/],
    [
      "a limit without a unit",
      { name: "x", domain: "d", descriptors: [{ key: "a" }, { key: "b", rate_limit: {} }] },
      /^resource x: descriptors\[1\]\.rate_limit\.unit: error: unit: expected one of second, .* got the quoted text "unknown"/,
    ],
    [
      "an unknown unit",
      { name: "x", domain: "d", descriptors: [{ key: "b", rate_limit: { unit: 99 } }] },
      /^resource x: descriptors\[0\]\.rate_limit\.unit: error: unit: expected one of .* "99"/,
    ],
    [
      "no key, two levels down",
      { name: "x", domain: "d", descriptors: [{ key: "b", descriptors: [{ value: "v" }] }] },
      /^resource x: descriptors\[0\]\.descriptors\[0\]\.key: error: the rule's key is missing or empty/,
    ],
    [
      "one rule twice",
      {
        name: "x",
        domain: "d",
        descriptors: [
          { key: "b", value: "v" },
          { key: "b", value: "v" },
        ],
      },
      /^resource x: descriptors\[1\]\.value: error: duplicate rule: .* is already defined at resource x: descriptors\[0\]\.value/,
    ],
    [
      "an unlimited rule with a unit",
      { name: "x", domain: "d", descriptors: [{ key: "b", rate_limit: { unlimited: true, unit: "DAY" } }] },
      /^resource x: descriptors\[0\]\.rate_limit\.unit: error: an unlimited rule can't have 'unit'/,
    ],
    [
      "an empty name in replaces",
      {
        name: "x",
        domain: "d",
        descriptors: [{ key: "b", rate_limit: { unit: "DAY", requests_per_unit: 1, replaces: [{}] } }],
      },
      /^resource x: descriptors\[0\]\.rate_limit\.replaces\[0\]: error: replaces: an item needs/,
    ],
  ])("with %s is refused, and the problem says where", (_what, config, line) => {
    expect(compiled(config).ruleSet).toBeUndefined();
    expect(linesOf(config)).toContainEqual(expect.stringMatching(line));
  });

  test("without a limit on an unlimited rule is as unlimited as a file says it", () => {
    const config = { name: "x", domain: "d", descriptors: [{ key: "b", rate_limit: { unlimited: true } }] };
    expect(linesOf(config)).toEqual([]);
    expect(compiled(config).ruleSet?.domains.get("d")?.root.rules[0]?.isUnlimited).toBe(true);
  });

  test("whose bytes are cut or changed anywhere is read or refused, and never breaks the reader", () => {
    const whole = resourceBytes(CHAIN);
    fc.assert(
      fc.property(fc.nat(whole.length - 1), fc.nat(255), fc.boolean(), (at, byte, isCut) => {
        const bytes = isCut ? whole.subarray(0, at) : Buffer.from(whole);
        if (!isCut) bytes[at] = byte;
        const file = resourceFile(Buffer.from(bytes));
        expect(file.root === undefined).toBe(file.problems.length > 0);
        compileRules([file], OPTIONS);
      }),
      { numRuns: runs(500) },
    );
  });

  test("nested deeper than a hundred levels is refused", () => {
    const NAME_X = Buffer.from([0x0a, 1, 0x78]);
    const DESCRIPTORS_OF_CONFIG = 0x1a;
    const DESCRIPTORS_OF_DESCRIPTOR = 0x22;
    let inner = Buffer.alloc(0);
    const wrap = (tag: number) => Buffer.from([tag, (inner.length & 0x7f) | 0x80, inner.length >> 7, ...inner]);
    for (let depth = 0; depth < 120; depth++) inner = wrap(DESCRIPTORS_OF_DESCRIPTOR);
    expect(linesOf(Buffer.concat([NAME_X, wrap(DESCRIPTORS_OF_CONFIG)]))).toEqual([
      expect.stringMatching(/^resource x: error: the message can't be read: .* at most 100 messages inside each other/),
    ]);
  });
});

function yamlOf({ domain, descriptors = [] }: WireConfig): string {
  return JSON.stringify({ domain, descriptors: descriptors.map(plain) });
}

function plain({ rate_limit, value, descriptors = [], ...rest }: WireDescriptor): object {
  const { unit, name, ...limit } = rate_limit ?? {};
  return {
    ...rest,
    ...(value === "" ? {} : { value }),
    rate_limit: {
      ...limit,
      ...(unit === undefined ? {} : { unit: String(unit).toLowerCase() }),
      ...(name === "" ? {} : { name }),
    },
    ...(descriptors.length === 0 ? {} : { descriptors: descriptors.map(plain) }),
  };
}

/** A rule set without its places and counters. */
function shape(value: unknown): unknown {
  return JSON.parse(
    JSON.stringify(value ?? null, (key, inner) => {
      if (["at", "stats", "unmatched", "files", "warnings", "chargesGivenHits"].includes(key)) return undefined;
      return inner instanceof Map ? [...inner] : inner instanceof Set ? [...inner] : inner;
    }),
  );
}
