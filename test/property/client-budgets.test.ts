// The messages of Budgets that the TypeScript client writes are read as they were asked. What it reads is in budgets-codec.test.ts.

import fc from "fast-check";
import { expect, test } from "vitest";
import { readReserved, writeHold, writeNumber } from "../../packages/client/src/budgets-wire.ts";
import { HoldAsk, LimitRequest, textOf } from "../../src/engine/domain/request.ts";
import { decodeHoldRequest } from "../../src/grpc/rls/budgets.ts";
import { reservedBytes } from "../support/budgets.ts";
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
  { name: "a wrong member", request: { domain: "edge", entries: { a: "b" }, amout: 1 }, says: /there is no "amout"/ },
])("$name is a TypeError", ({ request, says }) => {
  expect(() => writeHold(request as never, "r1")).toThrow(
    expect.objectContaining({ name: "TypeError", message: expect.stringMatching(says) }),
  );
});

test("a part of a second to wait is a second", () => {
  const answer = { code: "OVER_LIMIT", remaining: 0, rule: "", reason: "", reserved: 0, degraded: null };
  const bytes = reservedBytes({ ...answer, retry_after: { seconds: 1, nanos: 1 } });
  expect(readReserved(bytes)).toEqual({ allowed: false, reserved: 0, remaining: 0, retryAfterSeconds: 2 });
});
