// Configurations recorded with the verdict of the real envoyproxy/ratelimit: what it accepts loads here, what it refuses
// is refused here with a place.

import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { describe, expect, test } from "vitest";
import { compileYaml } from "../../../support/rules.ts";

interface Recorded {
  readonly name: string;
  readonly accepted: boolean;
  readonly files: Readonly<Record<string, string | { base64: string }>>;
  readonly merge?: boolean;
}

const FIXTURE = resolve(import.meta.dirname, "../../../fixtures/config-verdicts.json");
const RECORDED = JSON.parse(readFileSync(FIXTURE, "utf8")) as readonly Recorded[];

/** Refused there, accepted here: two rules that the reference only takes for one because it joins key and value by `_`. */
const ACCEPTED_HERE = new Set(["key a_b and key a value b", "a, b_c and a_b, c", "merging, a_b against a, b"]);

function compileRecorded({ files, merge }: Recorded) {
  const texts = Object.entries(files).map(([name, text]): [string, string | Buffer] => [
    name,
    typeof text === "string" ? text : Buffer.from(text.base64, "base64"),
  ]);
  return compileYaml(Object.fromEntries(texts), { mergeDomains: merge ?? false });
}

describe("recorded configurations", () => {
  const expected = RECORDED.map((recorded) => ({
    ...recorded,
    loads: recorded.accepted || ACCEPTED_HERE.has(recorded.name),
  }));

  test.each(expected.filter(({ loads }) => loads))("accepts: $name", (recorded) => {
    const { ruleSet, problems } = compileRecorded(recorded);
    expect(problems.filter(({ severity }) => severity === "error")).toEqual([]);
    expect(ruleSet).toBeDefined();
  });

  test.each(expected.filter(({ loads }) => !loads))("refuses with a place: $name", (recorded) => {
    const { ruleSet, problems } = compileRecorded(recorded);
    const errors = problems.filter(({ severity }) => severity === "error");
    expect(ruleSet).toBeUndefined();
    expect(errors.length).toBeGreaterThan(0);
    for (const { file, line, column } of errors) {
      expect(Object.keys(recorded.files)).toContain(file);
      expect(line).toBeGreaterThan(0);
      expect(column).toBeGreaterThan(0);
    }
  });

  test("the list of exceptions names only recorded refusals", () => {
    const refused = RECORDED.filter(({ accepted }) => !accepted).map(({ name }) => name);
    expect([...ACCEPTED_HERE].filter((name) => !refused.includes(name))).toEqual([]);
  });
});
