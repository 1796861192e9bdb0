// The messages of Budgets that the TypeScript client writes and reads equal those of proto/.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { readReserved, readSettled, writeHold, writeNumber } from "../../client/src/budgets-wire.ts";
import { HoldAsk, LimitRequest, textOf } from "../../src/engine/domain/request.ts";
import { decodeHoldRequest } from "../../src/grpc/rls/budgets.ts";
import { reservedBytes, settledBytes } from "../support/budgets.ts";
import { text } from "../support/request-arbitrary.ts";
import { runs } from "../support/runs.ts";

// Half a surrogate pair is no text: the client sends U+FFFD for it.
const wellFormed = text.map((chars) => Buffer.from(chars).toString());
const named = wellFormed.filter((chars) => chars !== "");
const count = fc.oneof(fc.constantFrom(0, 1, 127, 128, 2 ** 32, Number.MAX_SAFE_INTEGER), fc.maxSafeNat());
const pairs = fc.array(fc.tuple(wellFormed, wellFormed), { minLength: 1, maxLength: 5 });

test("a request comes to the service's codec as it was asked", () => {
  const pooled = new LimitRequest();
  fc.assert(
    fc.property(named, pairs, named, count, (domain, entries, id, number) => {
      const message = Buffer.concat([writeHold({ domain, entries }, id), writeNumber("amount", number)]);
      decodeHoldRequest(message, HoldAsk.settle, pooled);
      const [descriptor] = pooled.descriptors;
      const keys = descriptor?.keys.slice(0, descriptor.entryCount) ?? [];
      const read = keys.map((key, i) => [textOf(key), textOf(descriptor?.values[i] ?? "")]);
      expect([textOf(pooled.domain), read, textOf(pooled.holdId), pooled.holdAmount]).toEqual([
        domain,
        entries,
        id,
        number,
      ]);
    }),
    { numRuns: runs(200) },
  );
});

test.each([
  { name: "no domain", request: { domain: "", entries: { a: "b" } }, says: /^domain: expected the domain/ },
  { name: "no entries", request: { domain: "edge", entries: {} }, says: /^entries: expected at least one/ },
  { name: "a value that is missing", request: { domain: "edge", entries: { a: undefined } }, says: /^the entry a: / },
  {
    name: "a misspelt member",
    request: { domain: "edge", entries: { a: "b" }, amout: 1 },
    says: /there is no "amout"/,
  },
])("$name is a TypeError", ({ request, says }) => {
  expect(() => writeHold(request as never, "r1")).toThrow(
    expect.objectContaining({ name: "TypeError", message: expect.stringMatching(says) }),
  );
});

const degraded = fc.option(fc.record({ policy: wellFormed, failure: wellFormed }));
const reserveAnswer = fc.record({
  code: fc.constantFrom("UNKNOWN", "OK", "OVER_LIMIT"),
  remaining: count,
  retry_after: fc.option(fc.record({ seconds: fc.nat(), nanos: fc.nat({ max: 999_999_999 }) })),
  rule: wellFormed,
  reason: wellFormed,
  reserved: count,
  degraded,
});
const FOUND = ["SETTLED", "UNKNOWN", "ALREADY_SETTLED"] as const;
const settleAnswer = fc.record({ found: fc.constantFrom(...FOUND), remaining: count, degraded });

describe("an answer", () => {
  test("to Reserve is read as it was written", () => {
    fc.assert(
      fc.property(reserveAnswer, (plain) => {
        const wait = plain.retry_after;
        expect(readReserved(reservedBytes(plain))).toEqual({
          allowed: plain.code !== "OVER_LIMIT",
          reserved: plain.reserved,
          remaining: plain.remaining,
          ...(wait === null ? {} : { retryAfterSeconds: wait.seconds + (wait.nanos > 0 ? 1 : 0) }),
          ...(plain.rule === "" ? {} : { rule: plain.rule }),
          ...(plain.reason === "" ? {} : { reason: plain.reason }),
          ...(plain.degraded === null ? {} : { degraded: { by: "server", ...plain.degraded } }),
        });
      }),
      { numRuns: runs(200) },
    );
  });

  test("to Settle is read as it was written", () => {
    fc.assert(
      fc.property(settleAnswer, (plain) => {
        expect(readSettled(settledBytes(plain))).toEqual({
          found: plain.found.toLowerCase(),
          remaining: plain.remaining,
          ...(plain.degraded === null ? {} : { degraded: { by: "server", ...plain.degraded } }),
        });
      }),
      { numRuns: runs(200) },
    );
  });
});
