// Whatever bytes callers send as keys, values and domain: they are decided about, counted by their bytes, and answered in
// UTF-8, which is all that Envoy reads (docs/decisions/0009-bytes-that-are-no-text.md).

import { type DescMessage, fromBinary, toBinary } from "@bufbuild/protobuf";
import fc from "fast-check";
import { expect, test } from "vitest";
import { RateLimitService } from "../../src/grpc/rls/service.ts";
import { loadRegistry } from "../../src/grpc/transport/load-proto.ts";
import { HEADER_DIALECTS } from "../../src/settings/header-dialects.ts";
import { LimiterRig } from "../support/limiter-rig.ts";
import { runs } from "../support/runs.ts";
import { bytesField } from "../support/wire.ts";

const RULES = `
domain: edge
descriptors:
  - { key: any, rate_limit: { requests_per_unit: 3, unit: hour, algorithm: fixed_window } }
  - { key: wild, value: "a*", detailed_metric: true, rate_limit: { requests_per_unit: 3, unit: hour, algorithm: fixed_window } }
  - { key: expr, match: { regex: ".*" }, rate_limit: { requests_per_unit: 3, unit: hour, algorithm: fixed_window } }
`;
const AMOUNT = 3;
const response = loadRegistry().getMessage("envoy.service.ratelimit.v3.RateLimitResponse") as DescMessage;

interface ReadAnswer {
  readonly overallCode: number;
  readonly statuses: readonly { readonly limitRemaining: number; readonly currentLimit?: object }[];
}

// Reads an answer as strictly as can be: bytes that are no UTF-8 would not survive being read and written again.
function readStrictly(message: Uint8Array): ReadAnswer {
  const read = fromBinary(response, message);
  expect(Buffer.compare(toBinary(response, read), message)).toBe(0);
  return read as unknown as ReadAnswer;
}

function openService(): (domain: Buffer, key: Buffer, value: Buffer) => ReadAnswer {
  const rig = new LimiterRig(RULES);
  const service = new RateLimitService({
    limiter: rig.limiter,
    headers: { dialects: HEADER_DIALECTS, limitHeader: "a", remainingHeader: "b", resetHeader: "c" },
    metadata: "full",
    onInternalError: (error) => expect.unreachable(String(error)),
    onRequestError: (error) => expect.unreachable(error.message),
  });
  return (domain, key, value) => {
    const entry = bytesField(1, Buffer.concat([bytesField(1, key), bytesField(2, value)]));
    const answers: ReadAnswer[] = [];
    service.handle(Buffer.concat([bytesField(1, domain), bytesField(2, entry)]), Number.POSITIVE_INFINITY, {
      ok: (message) => answers.push(readStrictly(message)),
      fail: (_status, text) => expect.unreachable(text),
    });
    return answers[0] as ReadAnswer;
  };
}

const anyBytes = fc
  .oneof(
    fc.uint8Array({ minLength: 1, maxLength: 80 }),
    fc.constantFrom([0xff], [0xfe], [0xc0, 0xaf], [0xed, 0xa0, 0x80], [0xe2, 0x82], [0xef, 0xbf, 0xbd], [0x80]),
  )
  .map((bytes) => Buffer.from(bytes));
const edge = Buffer.from("edge");

// Promise(input): Values that are not text are limited by their bytes, also behind Envoy.
test.each([
  { rule: "any value", key: "any", before: "" },
  { rule: "a wildcard", key: "wild", before: "a" },
  { rule: "a regex", key: "expr", before: "" },
])("different bytes under $rule are counted apart, equal ones together", ({ key, before }) => {
  fc.assert(
    fc.property(fc.uniqueArray(anyBytes, { selector: (bytes) => bytes.toString("latin1"), maxLength: 8 }), (values) => {
      const hit = openService();
      for (let used = 1; used <= AMOUNT + 1; used++) {
        for (const value of values) {
          const answer = hit(edge, Buffer.from(key), Buffer.concat([Buffer.from(before), value]));
          expect(answer.statuses[0]?.limitRemaining).toBe(Math.max(0, AMOUNT - used));
          expect(answer.overallCode).toBe(used > AMOUNT ? 2 : 1);
        }
      }
    }),
    { numRuns: runs(30) },
  );
});

test("keys and domains of any bytes are answered as those that no rule knows", () => {
  const hit = openService();
  fc.assert(
    fc.property(anyBytes, anyBytes, (some, other) => {
      fc.pre(some.toString("latin1") !== "edge" && !["any", "wild", "expr"].includes(some.toString("latin1")));
      for (const answer of [hit(some, Buffer.from("any"), other), hit(edge, some, other)]) {
        expect(answer.overallCode).toBe(1);
        expect(answer.statuses).toHaveLength(1);
        expect(answer.statuses[0]?.currentLimit).toBeUndefined();
      }
    }),
    { numRuns: runs(300) },
  );
});
