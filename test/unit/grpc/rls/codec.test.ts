// What the codec makes of single messages: edges of numbers, bounds, and the words of its refusals.

import { expect, test } from "vitest";
import { RequestError } from "../../../../src/base/errors.ts";
import { WireWriter } from "../../../../src/base/wire.ts";
import {
  DESCRIPTORS_MAX,
  DOMAIN_BYTES_MAX,
  ENTRIES_MAX,
  ENTRY_BYTES_MAX,
  LimitRequest,
} from "../../../../src/engine/domain/request.ts";
import { Decision } from "../../../../src/engine/limiter/call.ts";
import { decodeRequest, encodeDecision } from "../../../../src/grpc/rls/codec.ts";
import { bytesField, tag, varint, varintField } from "../../../support/wire.ts";

function decode(message: Buffer): LimitRequest {
  const request = new LimitRequest();
  decodeRequest(message, request);
  return request;
}

function refusal(message: Buffer): string {
  try {
    decode(message);
  } catch (error) {
    if (error instanceof RequestError) return `${error.code}: ${error.message}`;
    throw error;
  }
  return "read";
}

function times(count: number, part: Buffer): Buffer {
  return Buffer.concat(new Array<Buffer>(count).fill(part));
}

test("reads any bit of a flag as set", () => {
  const message = bytesField(2, varintField(4, 2n ** 40n));
  expect(decode(message).descriptors[0]?.isRefund).toBe(true);
});

test("passes over a known field number with another wire type", () => {
  const message = Buffer.concat([bytesField(1, "a"), varintField(1, 7), bytesField(3, "xyz")]);
  expect(decode(message)).toMatchObject({ domain: "a", hitsAddend: 0 });
});

const entry = bytesField(1, bytesField(1, "k"));
test.each([
  { name: "DOMAIN_TOO_LONG", max: DOMAIN_BYTES_MAX, message: (n: number) => bytesField(1, "d".repeat(n)) },
  { name: "DESCRIPTORS_TOO_MANY", max: DESCRIPTORS_MAX, message: (n: number) => times(n, bytesField(2, "")) },
  { name: "ENTRIES_TOO_MANY", max: ENTRIES_MAX, message: (n: number) => bytesField(2, times(n, entry)) },
  {
    name: "ENTRY_TOO_LONG",
    max: ENTRY_BYTES_MAX,
    message: (n: number) => bytesField(2, bytesField(1, bytesField(1, "k".repeat(n)))),
  },
  {
    name: "ENTRY_TOO_LONG",
    max: ENTRY_BYTES_MAX,
    message: (n: number) => bytesField(2, bytesField(1, bytesField(2, "v".repeat(n)))),
  },
])("reads $max and refuses one more with REQUEST_$name", ({ name, max, message }) => {
  expect(refusal(message(max))).toBe("read");
  expect(refusal(message(max + 1))).toContain(`REQUEST_${name}: expected`);
});

test.each([
  { name: "field number zero", message: Buffer.from([0x00]), at: 0 },
  { name: "a field number above 2^29 - 1", message: varint(2n ** 32n), at: 0 },
  { name: "wire type six", message: Buffer.from([0x0e]), at: 1 },
  { name: "a group without an end", message: tag(5, 3), at: 1 },
  { name: "the end of a group that never began", message: tag(5, 4), at: 1 },
  { name: "a group that ends as another", message: Buffer.concat([tag(5, 3), tag(6, 4)]), at: 2 },
  {
    name: "a hundred and one groups inside each other",
    message: Buffer.concat([times(101, tag(5, 3)), times(101, tag(5, 4))]),
    at: 101,
  },
  { name: "a number of eleven bytes", message: Buffer.concat([tag(3, 0), Buffer.alloc(10, 0xff)]), at: 1 },
  { name: "a length beyond the message", message: Buffer.from([0x0a, 0x02, 0x61]), at: 1 },
  { name: "a length of 2^32", message: Buffer.concat([tag(1, 2), varint(2n ** 32n)]), at: 1 },
  {
    name: "an entry that leaves its descriptor",
    message: Buffer.concat([bytesField(2, Buffer.from([0x0a, 0x05])), bytesField(1, "domain")]),
    at: 3,
  },
])("refuses $name and names the byte", ({ message, at }) => {
  expect(refusal(message)).toMatch(new RegExp(`^REQUEST_MALFORMED: expected .* at byte ${at} of the message$`));
});

test.each([
  { name: "Infinity", remaining: Number.POSITIVE_INFINITY, sent: [0x18, 0xff, 0xff, 0xff, 0xff, 0x0f] },
  { name: "2^53", remaining: 2 ** 53, sent: [0x18, 0xff, 0xff, 0xff, 0xff, 0x0f] },
  { name: "a negative number", remaining: -1, sent: [] },
  { name: "no number", remaining: Number.NaN, sent: [] },
])("sends $name remaining within 32 bits", ({ remaining, sent }) => {
  const decision = new Decision();
  decision.addStatus().remaining = remaining;
  expect([...encodeDecision(decision, new WireWriter())].slice(6)).toEqual(sent);
});

test("sends an endless reset as the longest duration", () => {
  const decision = new Decision();
  const status = decision.addStatus();
  status.hasReset = true;
  status.resetSeconds = Number.POSITIVE_INFINITY;
  const duration = varintField(1, 315_576_000_000);
  expect([...encodeDecision(decision, new WireWriter())].slice(6)).toEqual([...bytesField(4, duration)]);
});
