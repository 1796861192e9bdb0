// What counts as a difference between two answers, and what is let pass.

import { describe, expect, test } from "vitest";
import { type CompareOptions, compareAnswers, type Difference } from "../../../../src/tools/mirror/compare.ts";
import { structOf, targetAnswer } from "../../../support/mirror-rig.ts";

const LIMIT = { name: "per-user", requests_per_unit: 10, unit: "MINUTE" };
const STATUS = { code: "OK", current_limit: LIMIT, limit_remaining: 5, duration_until_reset: { seconds: 30 } };
const METADATA = { rule: "edge/user", remaining: 5, yes: true, nothing: null, deep: { list: [1, "two"] } };
const ANSWER = {
  overall_code: "OK",
  statuses: [STATUS],
  response_headers_to_add: [{ key: "RateLimit-Remaining", value: "5" }],
  dynamic_metadata: structOf(METADATA),
};
const OPTIONS: CompareOptions = { ignore: [], remainingTolerance: 1, durationTolerance: 2_000 };

const withStatus = (change: object) => ({ ...ANSWER, statuses: [{ ...STATUS, ...change }] });
const withHeader = (key: string, value: string) => ({ ...ANSWER, response_headers_to_add: [{ key, value }] });
const withMetadata = (metadata: object) => ({ ...ANSWER, dynamic_metadata: structOf({ ...METADATA, ...metadata }) });
const compare = (one: object, other: object, options = OPTIONS) =>
  compareAnswers(targetAnswer(one), targetAnswer(other), options);
const shown = ({ field, descriptor, path }: Difference) => [field, descriptor, path].join("|");

describe("two answers", () => {
  test.each<[name: string, other: object, found: string[]]>([
    ["that are equal", structuredClone(ANSWER), []],
    ["with another overall code", { ...ANSWER, overall_code: "OVER_LIMIT" }, ["overall_code|-1|"]],
    ["with another code of a status", withStatus({ code: "OVER_LIMIT" }), ["status_code|0|"]],
    ["with another number of statuses", { ...ANSWER, statuses: [STATUS, STATUS] }, ["status_count|-1|"]],
    [
      "with another limit, whose remaining then says nothing",
      withStatus({ current_limit: { ...LIMIT, requests_per_unit: 20 }, limit_remaining: 15 }),
      ["limit|0|"],
    ],
    ["with another name of the limit", withStatus({ current_limit: { ...LIMIT, name: "" } }), ["limit|0|"]],
    ["one without a limit", withStatus({ current_limit: null }), ["limit|0|"]],
    ["with remaining within tolerance", withStatus({ limit_remaining: 6 }), []],
    ["with remaining beyond tolerance", withStatus({ limit_remaining: 7 }), ["remaining|0|"]],
    ["with a reset within tolerance", withStatus({ duration_until_reset: { seconds: 28 } }), []],
    [
      "with a reset beyond tolerance",
      withStatus({ duration_until_reset: { seconds: 27, nanos: 900_000_000 } }),
      ["duration|0|"],
    ],
    ["one without a reset", withStatus({ duration_until_reset: null }), ["duration|0|"]],
    ["with a header in other letters", withHeader("ratelimit-remaining", "5"), []],
    ["with a remaining header within tolerance", withHeader("RateLimit-Remaining", "6"), []],
    [
      "with a remaining header beyond tolerance",
      withHeader("RateLimit-Remaining", "9"),
      ["headers|-1|response ratelimit-remaining"],
    ],
    [
      "with different headers",
      withHeader("Retry-After", "1"),
      ["headers|-1|response ratelimit-remaining", "headers|-1|response retry-after"],
    ],
    [
      "one with a header for the upstream",
      { ...ANSWER, request_headers_to_add: [{ key: "x", value: "y" }] },
      ["headers|-1|request x"],
    ],
    [
      "with metadata that differs deep down",
      withMetadata({ remaining: 6, deep: { list: [1, "three"] } }),
      ["metadata|-1|deep.list[1]"],
    ],
    [
      "with metadata in which a list is an object",
      withMetadata({ deep: { list: { 0: 1, 1: "two" } } }),
      ["deep.list[0]", "deep.list[1]", "deep.list.0", "deep.list.1"].map((path) => `metadata|-1|${path}`),
    ],
    [
      "with metadata in which a path is a key",
      withMetadata({ deep: {}, "deep.list": [1, "two"] }),
      ["deep.list[0]", "deep.list[1]", "deep", '"deep.list"[0]', '"deep.list"[1]'].map((path) => `metadata|-1|${path}`),
    ],
    ["one without metadata", { ...ANSWER, dynamic_metadata: null }, ["metadata|-1|"]],
    ["one with a body", { ...ANSWER, raw_body: Buffer.from("x") }, ["body|-1|"]],
  ])("%s", (_, other, found) => {
    expect(compare(ANSWER, other).map(shown)).toEqual(found);
    expect(compare(other, ANSWER)).toHaveLength(found.length);
  });

  test("one of which is an error differ by nothing else", () => {
    expect(compareAnswers(targetAnswer(ANSWER), targetAnswer(ANSWER, 14), OPTIONS).map(shown)).toEqual([
      "grpc_code|-1|",
    ]);
  });

  test("structured headers are equal within tolerance", () => {
    const found = (a: string, b: string) => compare(withHeader("RateLimit", a), withHeader("RateLimit", b)).length;
    expect(found('"x";r=5;t=10', '"x";r=6;t=12')).toBe(0);
    expect(found('"x";r=5;t=10', '"x";r=7;t=10')).toBe(1);
    expect(found('"x";r=5;t=10', '"y";r=5;t=10')).toBe(1);
  });

  test("what is ignored is not compared, in headers and metadata neither", () => {
    const other = {
      ...withMetadata({ remaining: 99 }),
      statuses: [{ ...STATUS, limit_remaining: 99, duration_until_reset: { seconds: 99 } }],
      response_headers_to_add: [{ key: "RateLimit-Remaining", value: "99" }],
    };
    const fields = (...ignore: ("metadata" | "headers" | "remaining" | "duration")[]) =>
      compare(ANSWER, other, { ...OPTIONS, ignore }).map(({ field }) => field);
    expect(fields()).toEqual(["remaining", "duration", "headers", "metadata"]);
    expect(fields("remaining")).toEqual(["duration"]);
    expect(fields("headers", "metadata")).toEqual(["remaining", "duration"]);
    expect(fields("remaining", "duration")).toEqual([]);
  });

  test("a flood of differing metadata is cut", () => {
    const many = (value: number) => withMetadata(Object.fromEntries(Array.from({ length: 500 }, (_, i) => [i, value])));
    expect(compare(many(1), many(2))).toHaveLength(20);
  });
});
