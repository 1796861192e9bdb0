// Answers as people read them.

import { describe, expect, test } from "vitest";
import { answerJson, answerLine, answerText } from "../../../../src/tools/cli/answer-text.ts";
import { structOf, targetAnswer } from "../../../support/mirror-rig.ts";
import { RecordedTerminal } from "../../../support/recorded-terminal.ts";

const REFUSED = targetAnswer({
  overall_code: "OVER_LIMIT",
  statuses: [
    {
      code: "OVER_LIMIT",
      current_limit: { requests_per_unit: 5, unit: "MINUTE", name: "free" },
      duration_until_reset: { seconds: 12 },
    },
    {
      code: "OK",
      current_limit: { requests_per_unit: 7, unit: "UNKNOWN" },
      limit_remaining: 6,
      duration_until_reset: { seconds: 30 },
    },
    { code: "OK", limit_remaining: 4_294_967_295 },
    { code: "OK" },
  ],
  response_headers_to_add: [{ key: "Retry-After", value: "12" }],
  dynamic_metadata: structOf({ rule: "shop/tier", reset: 0, nested: { list: [false] }, nothing: null }),
});
const SHOWN = {
  answer: REFUSED,
  elapsedMs: 1.84,
  number: 3,
  flags: { domain: "shop", server: "localhost:8081" },
  descriptors: [
    [{ key: "tier", value: "free" }],
    [
      { key: "a", value: "1" },
      { key: "b", value: "2" },
    ],
    [],
    [],
  ],
};

test("says code, limits, what is left, headers and metadata", () => {
  expect(answerText(SHOWN, new RecordedTerminal())).toBe(`OVER_LIMIT  domain shop at localhost:8081, 1.8 ms

tier=free
  OVER_LIMIT  free: 5 per minute, 0 left, room again in 12 s

a=1,b=2
  OK  6 of 7 left, full again in 30 s

(no entries)
  OK  unlimited

(no entries)
  OK  no rule applies: passes without a limit

headers for the client
  Retry-After: 12

metadata
  rule: shop/tier
  reset: 0
  nested: {"list":[false]}
  nothing: null
`);
});

test("says of a call that is refused as a whole that no limit was asked", () => {
  const answer = targetAnswer({ overall_code: "OVER_LIMIT", statuses: [{ code: "OVER_LIMIT" }] });
  expect(answerText({ ...SHOWN, answer }, new RecordedTerminal())).toMatch(
    /tier=free\n {2}OVER_LIMIT {2}refused without asking a limit\n$/,
  );
  expect(answerLine({ ...SHOWN, answer }, new RecordedTerminal())).toMatch(/ refused\n$/);
});

test("takes one line where there are many", () => {
  expect(answerLine(SHOWN, new RecordedTerminal())).toBe(
    "   3  OVER_LIMIT     1.8 ms  0 left, 12 s | 6 left, 30 s | unlimited | no rule\n",
  );
});

test("shows what a hostile server sends instead of obeying it", () => {
  const answer = { ...REFUSED, response_headers_to_add: [{ key: "a\x1b[2J", value: "b\r\nc" }] };
  expect(answerText({ ...SHOWN, answer }, new RecordedTerminal())).toContain("  a\\x1b[2J: b\\x0d\\x0ac\n");
});

test("is plain JSON for machines, with numbers as numbers", () => {
  expect(answerJson(SHOWN)).toMatchObject({
    code: "OVER_LIMIT",
    elapsed_ms: 1.84,
    statuses: [{ code: "OVER_LIMIT", remaining: 0, reset_seconds: 12 }, {}, { limit: null, reset_seconds: null }, {}],
    response_headers: [{ key: "Retry-After", value: "12" }],
    metadata: { rule: "shop/tier", nested: { list: [false] }, nothing: null },
  });
});

describe("an answer that was made without the store", () => {
  const answer = targetAnswer({
    overall_code: "OK",
    statuses: [{ code: "OK" }],
    response_headers_to_add: [{ key: "Retry-After", value: "12" }],
    dynamic_metadata: structOf({ degraded: { policy: "allow", failure: "STORE_TIMEOUT" } }),
  });
  const said = "answered without the store (STORE_TIMEOUT), by on_store_failure: allow";

  test("says so before anything else, and of no descriptor that it has no limit", () => {
    const shown = answerText({ ...SHOWN, answer }, new RecordedTerminal());
    expect(shown.split("\n")[1]).toBe(said);
    expect(shown).toContain("tier=free\n  OK  not checked\n");
  });

  test("says so in one line too", () => {
    expect(answerLine({ ...SHOWN, answer }, new RecordedTerminal())).toBe(`   3  OK             1.8 ms  ${said}\n`);
  });
});
