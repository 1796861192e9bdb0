// The JSON endpoint: what it reads, what it refuses, and which HTTP status each answer becomes.

import type { MessageTypeDefinition } from "@grpc/proto-loader";
import { beforeEach, describe, expect, test } from "vitest";
import type { RequestError } from "../../../../src/base/errors.ts";
import { createJsonEndpoint, type JsonAnswer } from "../../../../src/grpc/rls/json.ts";
import { messageType, protobuf } from "../../../../src/grpc/transport/load-proto.ts";
import { GrpcStatus, type UnaryReply } from "../../../../src/grpc/unary.ts";
import { loadProto } from "../../../support/load-proto.ts";

const proto = loadProto();
const requestType = proto["envoy.service.ratelimit.v3.RateLimitRequest"] as MessageTypeDefinition<object, object>;
const responseType = proto["envoy.service.ratelimit.v3.RateLimitResponse"] as MessageTypeDefinition<object, object>;

let asked: object | undefined;
let requestErrors: RequestError[];
let internalErrors: unknown[];
let overloads: number;

beforeEach(() => {
  asked = undefined;
  requestErrors = [];
  internalErrors = [];
  overloads = 0;
});

function post(body: string | Buffer, answer: (reply: UnaryReply) => void = respond({})): Promise<JsonAnswer> {
  return openEndpoint(answer).answer(async () => (typeof body === "string" ? Buffer.from(body) : body));
}

function openEndpoint(answer: (reply: UnaryReply) => void, inFlightMax = 10) {
  return createJsonEndpoint({
    proto: { protobuf, messageType },
    inFlightMax,
    onOverload: () => {
      overloads++;
    },
    handler: {
      handle: (message, _deadlineUs, reply) => {
        asked = requestType.deserialize(message);
        answer(reply);
      },
    },
    onRequestError: (error) => requestErrors.push(error),
    onInternalError: (error) => internalErrors.push(error),
  });
}

function respond(response: object): (reply: UnaryReply) => void {
  const bytes = responseType.serialize({ overall_code: "OK", ...response });
  return (reply) => reply.ok(bytes);
}

test("of too many at once those too many are turned away; one whose body never comes takes no place", async () => {
  const body = Buffer.from('{"domain": "edge"}');
  let isDeciding = false;
  const endpoint = openEndpoint((reply) => {
    if (!isDeciding) respond({})(reply);
  }, 2);
  for (let i = 0; i < 5; i++) void endpoint.answer(() => new Promise<Buffer>(() => undefined));
  expect(await endpoint.answer(async () => body)).toMatchObject({ status: 200 });
  isDeciding = true;
  for (let i = 0; i < 2; i++) void endpoint.answer(async () => body);
  const refused = await endpoint.answer(async () => body);
  expect(refused).toMatchObject({ status: 503, body: expect.stringContaining("SERVICE_OVERLOADED") });
  expect(overloads).toBe(1);
});

test("the handler can see whether the caller has left", async () => {
  let isGone = false;
  const seen: (boolean | undefined)[] = [];
  const endpoint = openEndpoint((reply) => {
    seen.push(reply.isGone);
    isGone = true;
    seen.push(reply.isGone);
    respond({})(reply);
  });
  await endpoint.answer(async () => Buffer.from("{}"), { isGone: () => isGone });
  expect(seen).toEqual([false, true]);
});

test("a body that can't be read leaves its place to others", async () => {
  const endpoint = openEndpoint(respond({}), 1);
  await expect(endpoint.answer(() => Promise.reject(new Error("gone")))).rejects.toThrow("gone");
  expect(await endpoint.answer(async () => Buffer.from("{}"))).toMatchObject({ status: 200 });
});

describe("a body that is no request, however long it is,", () => {
  const filler = (bytes: number) => `"domain": "${"x".repeat(bytes)}"`;
  const broken = [
    { what: "two domains", make: (bytes: number) => `{${filler(bytes)}, "domain": "d"}` },
    { what: "an unknown field", make: (bytes: number) => `{${filler(bytes)}, "no_such": 1}` },
    { what: "a list", make: (bytes: number) => `[{${filler(bytes)}}]` },
    { what: "a text", make: (bytes: number) => `"${"x".repeat(bytes)}"` },
    { what: "no JSON", make: (bytes: number) => `{${filler(bytes)}` },
    { what: "descriptors that are none", make: (bytes: number) => `{${filler(bytes)}, "descriptors": [1]}` },
  ];
  const cases = broken.flatMap((one) => [10, 30_000].map((bytes) => ({ ...one, bytes })));

  test.each(cases)("gets an error about RateLimitRequest: $what, $bytes bytes", async ({ make, bytes }) => {
    const { status, body } = await post(make(bytes));
    expect(status).toBe(400);
    expect(body).toContain("RateLimitRequest");
    expect(body).not.toContain("Health");
  });
});

describe("a request", () => {
  test("of many descriptors arrives whole, in its order", async () => {
    const descriptors = Array.from({ length: 256 }, (_, i) => ({
      entries: [{ key: `k${i}`, value: "a value of some length" }],
    }));
    await post(JSON.stringify({ domain: "edge", descriptors, hitsAddend: 3 }));
    expect(asked).toMatchObject({ domain: "edge", hits_addend: 3, descriptors });
  });

  test.each([
    { name: "camelCase", body: { hitsAddend: 2, descriptors: [{ hitsAddend: "0", isNegativeHits: true }] } },
    { name: "snake_case", body: { hits_addend: 2, descriptors: [{ hits_addend: 0, is_negative_hits: true }] } },
  ])("is read with field names in $name", async ({ body }) => {
    await post(JSON.stringify(body));
    expect(asked).toMatchObject({
      hits_addend: 2,
      descriptors: [{ hits_addend: { value: "0" }, is_negative_hits: true }],
    });
  });

  test.each([
    { name: "a name", unit: "DAY", read: "DAY" },
    { name: "a number", unit: 4, read: "DAY" },
    { name: "the number of a week, which has no name", unit: 7, read: 7 },
    { name: "a number that means nothing", unit: 99, read: 99 },
  ])("is read with a unit as $name", async ({ unit, read }) => {
    const { status } = await post(JSON.stringify({ descriptors: [{ limit: { requestsPerUnit: 5, unit } }] }));
    expect(status).toBe(200);
    expect(asked).toMatchObject({ descriptors: [{ limit: { requests_per_unit: 5, unit: read } }] });
  });

  test("is read with hits up to 2^64 - 1 as text", async () => {
    await post('{"descriptors":[{"hitsAddend":"18446744073709551615"}]}');
    expect(asked).toMatchObject({ descriptors: [{ hits_addend: { value: "18446744073709551615" } }] });
  });

  test.each([
    { name: "nothing", body: "", says: "empty body" },
    { name: "only space", body: " \n", says: "empty body" },
    { name: "no JSON", body: "{", says: "JSON" },
    { name: "null", body: "null", says: "null" },
    { name: "a list", body: "[]", says: "Array" },
    { name: "an unknown field", body: '{"domian":"a"}', says: '"domian" is unknown' },
    { name: "an unknown field inside", body: '{"descriptors":[{"entry":[]}]}', says: '"entry" is unknown' },
    { name: "a field twice", body: '{"domain":"a","domain":"b"}', says: "duplicate" },
    { name: "a field twice in both spellings", body: '{"hitsAddend":1,"hits_addend":2}', says: "multiple times" },
    { name: "a field twice inside", body: '{"descriptors":[{"entries":[{"key":"a","key":"b"}]}]}', says: "duplicate" },
    { name: "text for a number", body: '{"hitsAddend":"many"}', says: "hits_addend" },
    { name: "a negative number", body: '{"hitsAddend":-1}', says: "hits_addend" },
    { name: "hits of 2^32", body: '{"hitsAddend":4294967296}', says: "hits_addend" },
    { name: "a number for text", body: '{"domain":5}', says: "domain" },
    { name: "an unknown unit", body: '{"descriptors":[{"limit":{"unit":"WEEK"}}]}', says: "WEEK" },
    { name: "half a surrogate pair", body: '{"domain":"\\ud800"}', says: "domain" },
    { name: "a null descriptor", body: '{"descriptors":[null]}', says: "descriptors" },
    { name: "bytes that are no UTF-8", body: Buffer.from([0x22, 0xff, 0x22]), says: "UTF-8" },
    { name: "a line feed after a wrong word", body: '{"domain":"a",\n"b"\nfalse}', says: "\\u000a" },
    { name: "text with lines for a number", body: '{"hitsAddend":"a\\nb\\u2028c"}', says: "a\\u000ab\\u2028c" },
    {
      name: "16,000 open brackets",
      body: `{"descriptors":${"[".repeat(16_000)}${"]".repeat(16_000)}}`,
      says: "JSON",
    },
  ])("of $name is refused with the reason and never asked", async ({ body, says }) => {
    const answer = await post(body);
    expect(answer).toMatchObject({ status: 400, headers: { "content-type": "text/plain; charset=utf-8" } });
    expect(answer.body).toMatch(/^REQUEST_BODY: expected [^\p{Cc}\p{Zl}\p{Zp}]+\n$/u);
    expect(answer.body).toContain(says);
    expect(asked).toBeUndefined();
    expect(requestErrors.map(({ code }) => code)).toEqual(["REQUEST_BODY"]);
  });
});

describe("an answer", () => {
  const status = {
    code: "OVER_LIMIT",
    current_limit: { requests_per_unit: 3, unit: "WEEK", name: "täglich" },
    duration_until_reset: { seconds: 58 },
  };

  test("is proto3 JSON with names in camelCase, zero left out and durations in seconds", async () => {
    const answer = await post("{}", respond({ statuses: [status, { code: "OK", limit_remaining: 4 }] }));
    expect(answer).toMatchObject({ status: 200, headers: { "content-type": "application/json" } });
    expect(JSON.parse(answer.body)).toEqual({
      overallCode: "OK",
      statuses: [
        {
          code: "OVER_LIMIT",
          currentLimit: { requestsPerUnit: 3, unit: "WEEK", name: "täglich" },
          durationUntilReset: "58s",
        },
        { code: "OK", limitRemaining: 4 },
      ],
    });
  });

  test("over limit is 429 with the decision's headers as headers", async () => {
    const headers = [
      { key: "Retry-After", value: "58" },
      { key: "X-RateLimit-Limit", value: "3" },
    ];
    const answer = await post("{}", respond({ overall_code: "OVER_LIMIT", response_headers_to_add: headers }));
    expect(answer).toMatchObject({ status: 429, headers: { "Retry-After": "58", "X-RateLimit-Limit": "3" } });
    expect(JSON.parse(answer.body)).toEqual({ overallCode: "OVER_LIMIT", responseHeadersToAdd: headers });
  });

  test("carries metadata as JSON", async () => {
    const metadata = { fields: { rule: { stringValue: "a" }, list: { listValue: { values: [{ numberValue: 1 }] } } } };
    const answer = await post("{}", respond({ dynamic_metadata: metadata }));
    expect(JSON.parse(answer.body)).toMatchObject({ dynamicMetadata: { rule: "a", list: [1] } });
  });

  test.each([
    { status: GrpcStatus.invalidArgument, http: 400 },
    { status: GrpcStatus.resourceExhausted, http: 429 },
    { status: GrpcStatus.unavailable, http: 503 },
    { status: GrpcStatus.deadlineExceeded, http: 504 },
    { status: GrpcStatus.internal, http: 500 },
    { status: GrpcStatus.unimplemented, http: 500 },
  ] as const)("of gRPC status $status is $http with the reason as text", async ({ status: code, http }) => {
    const answer = await post("{}", (reply) => reply.fail(code, "the reason"));
    expect(answer).toEqual({
      status: http,
      headers: { "content-type": "text/plain; charset=utf-8" },
      body: "the reason\n",
    });
  });

  test("of a handler that throws is 500 and reported", async () => {
    const fault = new Error("ours");
    const answer = await post("{}", () => {
      throw fault;
    });
    expect(answer.status).toBe(500);
    expect(internalErrors).toEqual([fault]);
  });

  test("keeps its bytes when the handler uses its buffer again", async () => {
    const bytes = responseType.serialize({ overall_code: "OVER_LIMIT" });
    const answer = await post("{}", (reply) => {
      reply.ok(bytes);
      bytes.fill(0);
    });
    expect(answer.status).toBe(429);
  });
});
