// The table of `headgate top`.

import fc from "fast-check";
import { expect, test } from "vitest";
import { topText } from "../../../../src/tools/cli/top-text.ts";
import { RecordedTerminal } from "../../../support/recorded-terminal.ts";

const AT = "2026-11-22T13:00:04.120Z";

type Row = Parameters<typeof topText>[0]["keys"][number];

function keyOf(of: { readonly rule?: string; readonly limit?: string; readonly tenant?: string }): Row {
  const { rule = "tenant", limit = "", tenant = "acme" } = of;
  return {
    domain: "edge",
    rule,
    limit,
    key: rule === "" ? "{edge}|global|sw/1/edge-total" : `{edge|tenant=${tenant}}|sw/60`,
    ...(rule === "" ? {} : { descriptor: [{ key: "tenant", value: tenant }] }),
    asked: 1_234,
    refused: 34,
    asked_overcount: 0,
    refused_overcount: 3,
    overcount: 3,
    refused_since: "2026-11-22T12:58:01.007Z",
    last_refused: "2026-11-22T13:00:03.988Z",
  };
}

function textOf(by: "refused" | "asked", keys: Row[], all: number): readonly string[] {
  const answer = { at: AT, window: "minute" as const, by, keys, asked: all, refused: all };
  return topText(answer, new RecordedTerminal({})).split("\n");
}

function tableOf(keys: Row[], screenColumns?: number): readonly string[] {
  const terminal = new RecordedTerminal({ screenColumns });
  const totals = { asked: 1_234, refused: 34 };
  return topText({ at: AT, window: "minute", by: "refused", keys, ...totals }, terminal)
    .trimEnd()
    .split("\n")
    .slice(2);
}

test("says who is refused by which rule, since when, and when last", () => {
  expect(tableOf([keyOf({}), keyOf({ rule: "", limit: "edge-total" }), keyOf({ tenant: "a,b" })])).toEqual([
    "REFUSED  ASKED  SINCE  LAST  RULE                            KEY",
    "  31-34   1234  2 min   0 s  edge/tenant                     tenant=acme",
    "  31-34   1234  2 min   0 s  edge/(global limit)#edge-total  all calls of the domain",
    "  31-34   1234  2 min   0 s  edge/tenant                     tenant=a\\,b",
  ]);
});

test.each([
  ["refused", 0, 0, "nobody is refused"],
  ["asked", 0, 0, "nobody asks"],
  ["refused", 0, 58_800, "no key stands out among 58800 refusals"],
  ["refused", 1, 3_101, "no key stands out among 3101 refusals"],
  ["refused", 1, 3_100, undefined],
  ["asked", 1, 123_401, "no key stands out among 123401 questions"],
  ["asked", 1, 123_400, undefined],
] as const)("by %s, %i keys of %i calls: %s", (by, size, all, says) => {
  const lines = textOf(by, Array(size).fill(keyOf({})), all);
  expect(lines[2]).toBe(says ?? "REFUSED  ASKED  SINCE  LAST  RULE         KEY");
  expect(lines.filter((line) => line.endsWith("tenant=acme"))).toHaveLength(size);
});

test("cuts keys and rules in their middle, since many begin alike, and names a bucket without its domain", () => {
  const long = `${"production-europe.".repeat(8)}gateway-`;
  const rows = tableOf([keyOf({ tenant: `${long}1` }), keyOf({ rule: `${long}2` })], 100);
  expect(rows[1]).toMatch(/tenant=prod\S+\.\.\.\S+gateway-1$/);
  expect(rows[2]).toMatch(/edge\/prod\S+\.\.\.\S+gateway-2 /);
  const { descriptor: _, ...hashed } = keyOf({ tenant: "%#n4bQ" });
  expect(tableOf([hashed])[1]).toMatch(/ tenant=%#n4bQ$/);
  expect(tableOf([{ ...keyOf({}), blocked: true }])[1]).toMatch(/ {2}\(blocked\) tenant=acme$/);
});

test("keeps each row on one line of a screen, and cuts nothing elsewhere", () => {
  const text = fc.string({ minLength: 1, maxLength: 90, unit: fc.constantFrom("a", "/", "=", "z") });
  fc.assert(
    fc.property(
      fc.array(fc.record({ rule: text, tenant: text }), { minLength: 1, maxLength: 4 }),
      fc.integer({ min: 60, max: 200 }),
      (of, columns) => {
        const keys = of.map(keyOf);
        const whole = tableOf(keys);
        const widest = Math.max(...whole.map(({ length }) => length));
        const rows = tableOf(keys, columns);
        for (const row of rows) expect(row.length).toBeLessThanOrEqual(columns);
        if (widest <= columns) expect(rows).toEqual(whole);
        for (const { tenant } of of) expect(whole.some((row) => row.endsWith(`tenant=${tenant}`))).toBe(true);
      },
    ),
  );
});
