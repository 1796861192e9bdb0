// What counts as a difference between two answers, and what is let pass.

import { describe, expect, test } from "vitest";
import type { ShownAnswer, ShownStatus } from "../../../src/tools/mirror/answer.ts";
import { type CompareOptions, compareAnswers, type Difference } from "../../../src/tools/mirror/compare.ts";

const LIMIT = { name: "per-user", requestsPerUnit: 10, unit: "MINUTE" };
const STATUS: ShownStatus = { code: "OK", limit: LIMIT, remaining: 5, resetSeconds: 30 };
const ANSWER: ShownAnswer = {
  grpcCode: 0,
  code: "OK",
  statuses: [STATUS],
  responseHeaders: [{ key: "RateLimit-Remaining", value: "5" }],
  requestHeaders: [],
  rawBody: "",
  metadata: { rule: "edge/user", remaining: 5, deep: { list: [1, "two"] } },
};
const OPTIONS: CompareOptions = { ignored: new Set(), remainingTolerance: 1, durationToleranceSeconds: 2 };

const withStatus = (change: Partial<ShownStatus>): ShownAnswer => ({ ...ANSWER, statuses: [{ ...STATUS, ...change }] });
const withHeader = (key: string, value: string): ShownAnswer => ({ ...ANSWER, responseHeaders: [{ key, value }] });
const shown = ({ field, descriptor, path }: Difference) => [field, descriptor, path].join("|");

describe("two answers", () => {
  test.each<{ name: string; other: ShownAnswer; found: string[] }>([
    { name: "that are equal", other: structuredClone(ANSWER), found: [] },
    {
      name: "with another overall code",
      other: { ...ANSWER, code: "OVER_LIMIT" },
      found: ["overall_code|-1|"],
    },
    { name: "with another code of a status", other: withStatus({ code: "OVER_LIMIT" }), found: ["status_code|0|"] },
    {
      name: "with another number of statuses",
      other: { ...ANSWER, statuses: [STATUS, STATUS] },
      found: ["status_count|-1|"],
    },
    {
      name: "with another limit, whose remaining then says nothing",
      other: withStatus({ limit: { ...LIMIT, requestsPerUnit: 20 }, remaining: 15 }),
      found: ["limit|0|"],
    },
    {
      name: "with another name of the limit",
      other: withStatus({ limit: { ...LIMIT, name: "" } }),
      found: ["limit|0|"],
    },
    { name: "one without a limit", other: withStatus({ limit: undefined }), found: ["limit|0|"] },
    { name: "with remaining within tolerance", other: withStatus({ remaining: 6 }), found: [] },
    { name: "with remaining beyond tolerance", other: withStatus({ remaining: 7 }), found: ["remaining|0|"] },
    { name: "with a reset within tolerance", other: withStatus({ resetSeconds: 28 }), found: [] },
    { name: "with a reset beyond tolerance", other: withStatus({ resetSeconds: 27.9 }), found: ["duration|0|"] },
    { name: "one without a reset", other: withStatus({ resetSeconds: undefined }), found: ["duration|0|"] },
    { name: "with a header in other letters", other: withHeader("ratelimit-remaining", "5"), found: [] },
    { name: "with a remaining header within tolerance", other: withHeader("RateLimit-Remaining", "6"), found: [] },
    {
      name: "with a remaining header beyond tolerance",
      other: withHeader("RateLimit-Remaining", "9"),
      found: ["headers|-1|response ratelimit-remaining"],
    },
    {
      name: "with different headers",
      other: withHeader("Retry-After", "1"),
      found: ["headers|-1|response ratelimit-remaining", "headers|-1|response retry-after"],
    },
    {
      name: "one with a header for the upstream",
      other: { ...ANSWER, requestHeaders: [{ key: "x", value: "y" }] },
      found: ["headers|-1|request x"],
    },
    {
      name: "with metadata that differs deep down",
      other: { ...ANSWER, metadata: { rule: "edge/user", remaining: 6, deep: { list: [1, "three"] } } },
      found: ["metadata|-1|deep.list.1"],
    },
    {
      name: "with metadata in which a list is an object",
      other: { ...ANSWER, metadata: { rule: "edge/user", remaining: 5, deep: { list: { 0: 1, 1: "two" } } } },
      found: ["deep.list.0", "deep.list.1", "deep.list.0", "deep.list.1"].map((path) => `metadata|-1|${path}`),
    },
    {
      name: "with metadata in which a path is a key",
      other: { ...ANSWER, metadata: { rule: "edge/user", remaining: 5, "deep.list": [1, "two"] } },
      found: ["deep.list.0", "deep.list.1", "deep.list.0", "deep.list.1"].map((path) => `metadata|-1|${path}`),
    },
    { name: "one without metadata", other: { ...ANSWER, metadata: undefined }, found: ["metadata|-1|"] },
    { name: "one with a body", other: { ...ANSWER, rawBody: "eA==" }, found: ["body|-1|"] },
    {
      name: "one of which is an error",
      other: { ...ANSWER, grpcCode: 14, code: "", statuses: [], metadata: undefined },
      found: ["grpc_code|-1|"],
    },
  ])("$name", ({ other, found }) => {
    expect(compareAnswers(ANSWER, other, OPTIONS).map(shown)).toEqual(found);
    expect(compareAnswers(other, ANSWER, OPTIONS)).toHaveLength(found.length);
  });

  test("structured headers are equal within tolerance", () => {
    const structured = (value: string) => withHeader("RateLimit", value);
    const compare = (a: string, b: string) => compareAnswers(structured(a), structured(b), OPTIONS).length;
    expect(compare('"x";r=5;t=10', '"x";r=6;t=12')).toBe(0);
    expect(compare('"x";r=5;t=10', '"x";r=7;t=10')).toBe(1);
    expect(compare('"x";r=5;t=10', '"y";r=5;t=10')).toBe(1);
  });

  test("what is ignored is not compared, in headers and metadata neither", () => {
    const other: ShownAnswer = {
      ...withStatus({ remaining: 99, resetSeconds: 99 }),
      responseHeaders: [{ key: "RateLimit-Remaining", value: "99" }],
      metadata: { rule: "edge/user", remaining: 99, deep: { list: [1, "two"] } },
    };
    const fields = (...ignored: ("metadata" | "headers" | "remaining" | "duration")[]) =>
      compareAnswers(ANSWER, other, { ...OPTIONS, ignored: new Set(ignored) }).map(({ field }) => field);
    expect(fields()).toEqual(["remaining", "duration", "headers", "metadata"]);
    expect(fields("remaining")).toEqual(["duration"]);
    expect(fields("headers", "metadata")).toEqual(["remaining", "duration"]);
    expect(fields("remaining", "duration")).toEqual([]);
  });

  test("a flood of differing metadata is cut", () => {
    const many = (value: number) => Object.fromEntries(Array.from({ length: 500 }, (_, i) => [`k${i}`, value]));
    const found = compareAnswers({ ...ANSWER, metadata: many(1) }, { ...ANSWER, metadata: many(2) }, OPTIONS);
    expect(found).toHaveLength(20);
  });
});
