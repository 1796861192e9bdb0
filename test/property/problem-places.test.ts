// Whatever is wrong in a rule file, and wherever: the problem that is shown points at the very place. Mistakes are made one
// at a time, at every place of a file that has all kinds of things in it.

import { describe, expect, test } from "vitest";
import { isMap, isScalar, type Node, parseDocument, type Scalar, visit } from "yaml";
import { compileYaml } from "../support/rules.ts";

const RULES = `# comment with { and "
domain: edge
global_limit: { name: "all", requests_per_unit: 9, unit: second }
descriptors:
  - key: remote_address
    rate_limit: { name: per-address, tokens_per_second: 10, burst: 50 }
  - key: plan
    value: 'gold'
    shadow_mode: false
    descriptors:
      - key: api_key
        hash_values: true
        cost: { entry: weight, default: 1, max: 100 }
        on_store_failure: local
        rate_limits:
          - { name: a, requests_per_unit: 5, window: 10m, algorithm: sliding_log }
          - name: b
            requests_per_unit: 7
            unit: day
  - { key: plan, rate_limit: { unlimited: true } }
  - key: route
    match: { one_of: ["/a", '/b'] }
    rate_limit:
      requests_per_unit: 3
      unit: hour
`;

interface Place {
  readonly line: number;
  readonly column: number;
}

function placeOf(text: string, offset: number): Place {
  const before = text.slice(0, offset).split("\n");
  return { line: before.length, column: (before.at(-1) ?? "").length + 1 };
}

/** The first error of a file. */
function firstError(text: string): (Place & { readonly message: string; readonly suggestion?: string }) | undefined {
  return compileYaml({ "edge.yaml": text }).problems.find(({ severity }) => severity === "error");
}

/** Where errors are; a mistake may make another thing lack, which is said as well. */
function errorPlaces(text: string): readonly Place[] {
  const errors = compileYaml({ "edge.yaml": text }).problems.filter(({ severity }) => severity === "error");
  return errors.map(({ line, column }) => ({ line, column }));
}

interface Spot {
  readonly name: string;
  readonly start: number;
  readonly end: number;
}

const keys: Spot[] = [];
const values: (Spot & { readonly key: string })[] = [];
visit(parseDocument(RULES), {
  Pair(_, { key, value }) {
    if (!isScalar(key)) return;
    const spotOf = (node: Node): Spot => {
      const [start, end] = node.range ?? [0, 0];
      return { name: `${String((key as Scalar).value)} at ${placeOf(RULES, start).line}`, start, end };
    };
    keys.push(spotOf(key as Node));
    if (isScalar(value) || isMap(value)) values.push({ ...spotOf(value as Node), key: String(key.value) });
  },
});

function replaced(spot: Spot, by: string): string {
  return RULES.slice(0, spot.start) + by + RULES.slice(spot.end);
}

/** Everything that may stand here: free text. */
const ANY_TEXT = new Set(["key", "value", "name", "entry", "domain"]);

test("the file without a mistake has no problem, and many places", () => {
  expect(compileYaml({ "edge.yaml": RULES }).problems).toEqual([]);
  expect([keys.length, values.length]).toEqual([39, 35]);
});

// Promise(rules): Every problem in a rule file points at its place, and typos are explained in plain words.
describe("a problem points at its place", () => {
  test.each(keys)("of a key that there is not, for $name", (spot) => {
    expect(errorPlaces(replaced(spot, "nonsense_key"))).toContainEqual(placeOf(RULES, spot.start));
  });

  test.each(values)("of a list where none can be, for $name", (spot) => {
    expect(errorPlaces(replaced(spot, "[[1]]"))).toContainEqual(placeOf(RULES, spot.start));
  });

  test.each(values.filter(({ key }) => !ANY_TEXT.has(key)))("of a word that makes no sense, for $name", (spot) => {
    expect(errorPlaces(replaced(spot, "nonsense"))).toContainEqual(placeOf(RULES, spot.start));
  });
});

/** Offsets of a text's every occurrence. */
function offsetsOf(part: string | RegExp): number[] {
  const pattern = typeof part === "string" ? new RegExp(part.replace(/[[\]{}]/g, "\\$&"), "g") : part;
  return [...RULES.matchAll(pattern)].map(({ index }) => index).filter((at) => at > RULES.indexOf("\n"));
}

function without(offset: number, length = 1): string {
  return RULES.slice(0, offset) + RULES.slice(offset + length);
}

const lineOf = (offset: number) => ({ line: placeOf(RULES, offset).line });

// Promise(rules): Every problem in a rule file points at its place, and typos are explained in plain words.
describe("a slip of the finger is named in plain words, on its line", () => {
  test.each(offsetsOf(/, (?=\w+:)/g))("a comma left out at %i, before the word that follows", (offset) => {
    const next = /^\w+/.exec(RULES.slice(offset + 2))?.[0];
    const error = firstError(without(offset));
    expect(error).toMatchObject(placeOf(RULES, offset + 1));
    expect(error?.message).toBe(`a comma is missing before '${next}'`);
  });

  test.each(offsetsOf(/[{[]/g))("a bracket that is not closed, at %i", (offset) => {
    const close = RULES[offset] === "{" ? "}" : "]";
    const line = RULES.slice(offset).split("\n")[0] ?? "";
    // The innermost of the line is closed first.
    const end = offset + line.indexOf(close);
    const open = RULES.lastIndexOf(RULES[offset] ?? "", end);
    const error = firstError(without(end));
    expect(error).toMatchObject(lineOf(open));
    expect(error?.message).toMatch(/is not closed|bracket|comma/);
  });

  test.each(offsetsOf(/(?<=\n *(?:- )?[a-z_]+): (?=\S)/g))("a colon left out at %i", (offset) => {
    const error = firstError(without(offset));
    expect(error).toMatchObject(lineOf(offset));
    expect(error?.message).toMatch(/^expected 'key: value', got/);
  });

  test.each(offsetsOf(/(?<=\n *(?:- )?[a-z_]+:) (?=\w)/g))("a blank left out after a colon, at %i", (offset) => {
    const error = firstError(without(offset));
    expect(error).toMatchObject(lineOf(offset));
    expect(error?.message).toMatch(/^a space is missing after/);
  });

  test.each(offsetsOf(/(?<=")[^"\n]*"/g).filter((_, i) => i % 2 === 0))(
    "a quote that is not closed, at %i",
    (offset) => {
      const end = RULES.indexOf('"', offset);
      const error = firstError(without(end));
      expect(error).toMatchObject(lineOf(offset));
      expect(error?.message).toMatch(/is not closed|comma/);
    },
  );

  test.each(offsetsOf(/(?<=\n) +(?=[a-z_]+: [a-z0-9']+\n)/g))("a line indented one deeper, at %i", (offset) => {
    const error = firstError(`${RULES.slice(0, offset)} ${RULES.slice(offset)}`);
    expect(error).toBeDefined();
    expect(Math.abs((error?.line ?? 0) - lineOf(offset).line)).toBeLessThanOrEqual(1);
    expect(`${error?.message} ${error?.suggestion}`).not.toMatch(/YAML|flow|compact|implicit|scalar|token/);
  });
});
