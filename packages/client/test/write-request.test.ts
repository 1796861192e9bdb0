// What the client sends for what its callers write.

import { describe, expect, test } from "vitest";
import { requestInProto } from "../../../test/support/client-wire.ts";
import type { CheckRequest } from "../src/request.ts";
import { queueKeyOf, writeRequest } from "../src/write-request.ts";

/** What proto/ makes of the bytes. */
const sent = (request: Partial<CheckRequest>) =>
  requestInProto(writeRequest({ domain: "edge", descriptors: [{ user: "a" }], ...request }));

describe("a request", () => {
  test.each([
    { short: { plan: "gold", level: 3, beta: true }, entries: { plan: "gold", level: "3", beta: "true" } },
    { short: { entries: "7" }, entries: { entries: "7" } },
    { short: { hits: "5", peek: "true" }, entries: { hits: "5", peek: "true" } },
  ])("takes $short in the short form, in the order written", ({ short, entries }) => {
    const [descriptor] = sent({ descriptors: [short] }).descriptors;
    expect(descriptor?.entries).toEqual(Object.entries(entries).map(([key, value]) => ({ key, value })));
  });

  test.each([
    { name: "nothing said", request: {}, full: {}, hits: null, isRefund: false },
    { name: "a peek on the request", request: { peek: true }, full: {}, hits: 0, isRefund: false },
    { name: "a peek on the request with hits", request: { peek: true }, full: { hits: 2 }, hits: 0, isRefund: false },
    { name: "no peek with a peek", request: { peek: true }, full: { peek: false }, hits: null, isRefund: false },
    { name: "a refund of the request's hits", request: { refund: true, hits: 4 }, full: {}, hits: 4, isRefund: true },
    { name: "a refund without hits", request: {}, full: { refund: true }, hits: 1, isRefund: true },
  ])("has on the descriptor, with $name, hits $hits", ({ request, full, hits, isRefund }) => {
    const [descriptor] = sent({ ...request, descriptors: [{ entries: { user: "a" }, ...full }] }).descriptors;
    expect(descriptor?.hits_addend ?? null).toEqual(hits === null ? null : { value: String(hits) });
    expect(descriptor?.is_negative_hits).toBe(isRefund);
  });

  // Each thing that a caller may get wrong, at each place where it may stand.
  const oddValues = [undefined, null, {}, [], Number.NaN, Number.POSITIVE_INFINITY, 1n, Symbol("s"), () => "a"];
  const oddCounts = [-1, 1.5, 2 ** 53, Number.NaN, "5", null, true];
  const oddText = [undefined, null, "", 7, {}, []];
  const oddLists = [undefined, null, {}, "user", []];
  const entries = { user: "a" };
  const mistakes: readonly (readonly [what: string, request: unknown])[] = [
    ...[undefined, null, "edge", 7, []].map((request) => ["the request", request] as const),
    ...oddText.map((domain) => ["domain", { domain, descriptors: [entries] }] as const),
    ...oddLists.map((descriptors) => ["descriptors", { domain: "edge", descriptors }] as const),
    ...[undefined, null, "user=a", 7, [], [["user", "a"]]].map((each) => ["a descriptor", asking(each)] as const),
    ...oddValues.map((user) => ["a value", asking({ user })] as const),
    ...oddValues.map((user) => ["a value of the full form", asking({ entries: { user } })] as const),
    ...oddValues.map((user) => ["a value of a pair", asking({ entries: [["user", user]] })] as const),
    ...[undefined, "user", ["user"], [7, "a"], ["user", "a", "b"]].map(
      (pair) => ["a pair", asking({ entries: [pair] })] as const,
    ),
    ...oddCounts.map((hits) => ["hits", { ...asking(entries), hits }] as const),
    ...oddCounts.map((hits) => ["hits of a descriptor", asking({ entries, hits })] as const),
    ...["yes", 1, null].flatMap((word) => [
      ["peek", { ...asking(entries), peek: word }] as const,
      ["refund", { ...asking(entries), refund: word }] as const,
      ["peek of a descriptor", asking({ entries, peek: word })] as const,
      ["refund of a descriptor", asking({ entries, refund: word })] as const,
    ]),
    ...oddCounts.map(
      (requestsPerUnit) => ["override", asking({ entries, override: { requestsPerUnit, unit: "day" } })] as const,
    ),
    ...[undefined, "", "fortnight", "toString", 3].map(
      (unit) => ["a unit", asking({ entries, override: { requestsPerUnit: 1, unit } })] as const,
    ),
    ["hits next to entries", asking({ user: "a", hits: 5 })],
    ["a peek next to entries", asking({ user: "a", peek: true })],
    ["a refund next to entries", asking({ user: "a", refund: true })],
    ["an override next to entries", asking({ user: "a", override: { requestsPerUnit: 1, unit: "day" } })],
    ["a misspelt name", { ...asking(entries), descriptor: [] }],
    ["a misspelt name of a descriptor", asking({ entries, hit: 5 })],
    ["hits that the request can't carry", { ...asking(entries), hits: 2 ** 32 }],
  ];

  // Promise(clients): Mistakes in calls and options of the TypeScript client are TypeErrors, whatever the policy.
  test.each(mistakes)("with a mistake in %s is a TypeError that says what was expected: %o", (_, request) => {
    const send = () => writeRequest(request as CheckRequest);
    expect(send).toThrow(TypeError);
    expect(send).toThrow(/expected/);
  });
});

test("has a key to wait by, which tells domains and entries apart, and nothing else", () => {
  const entries = { user: "a" };
  const key = queueKeyOf({ domain: "edge", descriptors: [entries] });
  const override = { requestsPerUnit: 1, unit: "day" } as const;
  expect(queueKeyOf({ domain: "edge", hits: 5, descriptors: [{ entries, hits: 2, override }] })).toBe(key);
  const others: CheckRequest[] = [
    { domain: "other", descriptors: [entries] },
    { domain: "edge", descriptors: [{ user: "b" }] },
    { domain: "edge", descriptors: [{ user: "a", plan: "gold" }] },
    { domain: "edge", descriptors: [entries, { plan: "gold" }] },
  ];
  expect(new Set([key, ...others.map(queueKeyOf)]).size).toBe(5);
  expect(() => queueKeyOf({ domain: "", descriptors: [entries] })).toThrow(TypeError);
});

function asking(descriptor: unknown): object {
  return { domain: "edge", descriptors: [descriptor] };
}
