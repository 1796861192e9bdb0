// Counting differences by field and by rule, within bounds, and keeping callers' values out.

import { describe, expect, test } from "vitest";
import type { AskedRequest, TargetAnswer } from "../../../../src/tools/mirror/answer.ts";
import { type CompareOptions, compareAnswers } from "../../../../src/tools/mirror/compare.ts";
import {
  DIFFERING_RULES_MAX,
  Differences,
  EXAMPLES_MAX,
  type ValueMode,
} from "../../../../src/tools/mirror/differences.ts";
import { structOf, targetAnswer } from "../../../support/mirror-rig.ts";

const OPTIONS: CompareOptions = { ignore: [], remainingTolerance: 0, durationTolerance: 0 };

const status = (amount: number, code = "OK") => ({
  code,
  current_limit: { requests_per_unit: amount, unit: "SECOND" },
  limit_remaining: 1,
});

const answer = (statuses: readonly { readonly code: string }[], metadata?: object): TargetAnswer =>
  targetAnswer({
    overall_code: statuses.some(({ code }) => code === "OVER_LIMIT") ? "OVER_LIMIT" : "OK",
    statuses,
    dynamic_metadata: metadata === undefined ? null : structOf(metadata),
  });

const request = (...keys: string[]): AskedRequest => ({
  domain: "edge",
  hits_addend: 0,
  descriptors: keys.map((key) => ({ entries: [{ key, value: `value of ${key}` }] })),
});

function enter(book: Differences, asked: AskedRequest, answering: TargetAnswer, compared: TargetAnswer): void {
  const differences = compareAnswers(answering, compared, OPTIONS);
  book.enter({ request: asked, answering, compared, differences, atUs: 1_700_000_000_000_000 });
}

const newBook = (mode: ValueMode = "hide") => new Differences(mode);

describe("the book of differences", () => {
  test("counts equal calls and nothing else of them", () => {
    const book = newBook();
    enter(book, request("a"), answer([status(1)]), answer([status(1)]));
    expect([book.same, book.different, book.rules(), book.examples]).toEqual([1, 0, [], []]);
  });

  test("puts a difference down to the descriptor that differs, and not to the others of the call", () => {
    const book = newBook();
    enter(book, request("a", "b"), answer([status(1), status(2, "OVER_LIMIT")]), answer([status(1), status(2)]));
    const limits = { answering_limit: "2/SECOND", compared_limit: "2/SECOND" };
    const found = {
      calls: 1,
      over_only_answering: 1,
      over_only_compared: 0,
      fields: { status_code: 1, overall_code: 1 },
    };
    expect(book.rules()).toEqual([{ domain: "edge", keys: "b", ...limits, ...found }]);
    expect(book.fields).toMatchObject({ overall_code: 1, status_code: 1, limit: 0 });
  });

  test("puts a difference of the whole answer down to the descriptor that decided", () => {
    const book = newBook();
    const statuses = [status(9), status(2, "OVER_LIMIT")];
    enter(book, request("a", "b"), answer(statuses, { x: 1 }), answer(statuses, { x: 2 }));
    expect(book.rules().map(({ keys, fields }) => [keys, fields])).toEqual([["b", { metadata: 1 }]]);
  });

  test("shows an error with the limit that the other shows", () => {
    const book = newBook();
    enter(book, request("a"), targetAnswer({}, 14), answer([status(3)]));
    expect(book.rules()[0]).toMatchObject({ keys: "a", answering_limit: "error 14", compared_limit: "3/SECOND" });
  });

  test("lists rules with most differing calls first", () => {
    const book = newBook();
    for (const key of ["a", "b", "b"]) enter(book, request(key), answer([status(1)]), answer([status(2)]));
    expect(book.rules().map(({ keys, calls }) => [keys, calls])).toEqual([
      ["b", 2],
      ["a", 1],
    ]);
  });

  test("keeps the first hundred in full, and counts all", () => {
    const book = newBook();
    for (let i = 0; i < EXAMPLES_MAX + 50; i++) enter(book, request("a"), answer([status(1)]), answer([status(2)]));
    expect(book.examples).toHaveLength(EXAMPLES_MAX);
    expect(book.different).toBe(EXAMPLES_MAX + 50);
    expect(book.rules()[0]?.calls).toBe(EXAMPLES_MAX + 50);
  });

  test("tells so many rules apart and counts the others under a name that no rule has", () => {
    const book = newBook();
    for (let i = 0; i < DIFFERING_RULES_MAX + 20; i++)
      enter(book, request(`k${i}`), answer([status(1)]), answer([status(2)]));
    expect(book.rules()).toHaveLength(DIFFERING_RULES_MAX + 1);
    expect(book.rules()[0]).toMatchObject({ domain: "", answering_limit: "", calls: 20 });
  });
});

describe("values of callers", () => {
  const secret = { entries: ["a=value of a"], note: "value of a", count: 3 };
  const shownIn = (mode: ValueMode) => {
    const book = newBook(mode);
    enter(book, request("a"), answer([status(1)], secret), answer([status(1)], { count: 4 }));
    return book.examples[0];
  };

  test("are left out of reports unless asked for, in metadata too; numbers stay", () => {
    const example = shownIn("hide");
    expect(JSON.stringify(example)).not.toContain("value of a");
    expect(example?.descriptors).toEqual(["a"]);
    expect(example?.differences).toContainEqual({ field: "metadata", path: "count", answering: "3", compared: "4" });
    expect(example?.differences).toContainEqual({
      field: "metadata",
      path: "note",
      answering: "(text)",
      compared: "none",
    });
  });

  test("are shown when asked for, as they would be typed", () => {
    expect(shownIn("show")?.descriptors).toEqual(["a=value of a"]);
    const book = newBook("show");
    enter(book, request("a,b"), answer([status(1)]), answer([status(2)]));
    expect(book.examples[0]?.descriptors).toEqual(["a\\,b=value of a\\,b"]);
  });
});
