// The bytes that the TypeScript client writes and reads equal those of proto/, by proto-loader and by the service's own codec.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { readAnswer } from "../../packages/client/src/read-answer.ts";
import { ALGORITHMS } from "../../packages/client/src/request.ts";
import { UNITS } from "../../packages/client/src/unit.ts";
import { writeRequest } from "../../packages/client/src/write-request.ts";
import { LimitRequest } from "../../src/engine/domain/request.ts";
import { decodeRequest } from "../../src/grpc/rls/codec.ts";
import { shouldRateLimit } from "../support/load-proto.ts";
import { answerBytes } from "../support/mirror-rig.ts";
import { plainOf, text } from "../support/request-arbitrary.ts";
import { runs } from "../support/runs.ts";
import { bytesField, UNKNOWN_FIELDS, varintField } from "../support/wire.ts";
import type { LoadedResponse } from "../vectors/normal-form.ts";

// Half a surrogate pair is no text: the client sends U+FFFD for it, proto-loader sends bytes that are no UTF-8.
const wellFormed = text.map((chars) => Buffer.from(chars).toString());
const count = fc.oneof(fc.constantFrom(0, 1, 127, 128, 2 ** 31, 2 ** 32 - 1), fc.nat());
const longCount = fc.oneof(count, fc.constantFrom(2 ** 32, 2 ** 53 - 1), fc.maxSafeNat());

const descriptor = fc.record(
  {
    entries: fc.array(fc.tuple(wellFormed, wellFormed), { maxLength: 5 }),
    hits: longCount,
    override: fc.record(
      { requestsPerUnit: count, unit: fc.constantFrom(...UNITS), algorithm: fc.constantFrom(...ALGORITHMS) },
      { requiredKeys: ["requestsPerUnit", "unit"] },
    ),
    refund: fc.boolean(),
  },
  { requiredKeys: ["entries"] },
);
const request = fc.record({
  domain: wellFormed.filter((name) => name !== ""),
  descriptors: fc.array(descriptor, { minLength: 1, maxLength: 4 }),
  hits: count,
});

// Promise(clients): The service reads from the client's bytes what was asked; whatever comes back is an answer or an error.
test("a request comes to the service's codec as it was asked", () => {
  const pooled = new LimitRequest();
  fc.assert(
    fc.property(request, (asked) => {
      decodeRequest(writeRequest(asked), pooled);
      const hitsOf = ({ hits, refund }: { readonly hits?: number; readonly refund?: boolean }) =>
        hits ?? (refund === true ? asked.hits : asked.hits === 0 ? 0 : undefined);
      expect(plainOf(pooled)).toEqual({
        domain: asked.domain,
        hitsAddend: asked.hits,
        descriptors: asked.descriptors.map((each) => ({
          entries: each.entries,
          override: each.override && {
            amount: each.override.requestsPerUnit,
            unit: UNITS.indexOf(each.override.unit) + 1,
            algorithm: each.override.algorithm ?? "",
          },
          hits: hitsOf(each),
          isRefund: each.refund ?? false,
        })),
      });
    }),
    { numRuns: runs(300) },
  );
});

const code = fc.constantFrom("UNKNOWN", "OK", "OVER_LIMIT");
const value = fc.letrec((tie) => ({
  any: fc.oneof(
    { maxDepth: 3 },
    wellFormed.map((stringValue) => ({ stringValue })),
    fc.double({ noNaN: true }).map((numberValue) => ({ numberValue })),
    fc.boolean().map((boolValue) => ({ boolValue })),
    fc.constantFrom({ nullValue: 0 }, {}),
    fc.array(tie("any"), { maxLength: 3 }).map((values) => ({ listValue: { values } })),
    fc.dictionary(wellFormed, tie("any"), { maxKeys: 3 }).map((fields) => ({ structValue: { fields } })),
  ),
})).any;
const answer = fc.record({
  overall_code: code,
  statuses: fc.array(
    fc.record({
      code,
      current_limit: fc.option(
        fc.record({
          requests_per_unit: count,
          unit: fc.constantFrom(0, 1, 2, 3, 4, 5, 6, 7, 8, -1),
          name: wellFormed,
        }),
      ),
      limit_remaining: count,
      duration_until_reset: fc.option(
        fc.record({ seconds: fc.nat({ max: 315_576_000_000 }), nanos: fc.nat({ max: 999_999_999 }) }),
      ),
    }),
    { maxLength: 4 },
  ),
  response_headers_to_add: fc.array(fc.record({ key: wellFormed, value: wellFormed }), { maxLength: 4 }),
  dynamic_metadata: fc.option(fc.dictionary(wellFormed, value, { maxKeys: 4 }).map((fields) => ({ fields }))),
});

/** A google.protobuf.Value as JSON; one without any member stands for null. */
function plainValue(value: Readonly<Record<string, unknown>>): unknown {
  const { structValue, listValue } = value;
  if (structValue) return plainStruct(structValue as NonNullable<LoadedResponse["dynamic_metadata"]>);
  if (listValue) return (listValue as { values: (typeof value)[] }).values.map(plainValue);
  return value.stringValue ?? value.numberValue ?? value.boolValue ?? null;
}

function plainStruct({ fields }: NonNullable<LoadedResponse["dynamic_metadata"]>): object {
  return Object.fromEntries(Object.entries(fields).map(([key, value]) => [key, plainValue(value)]));
}

/** What the client promises to make of proto-loader's form of an answer. */
function meaningOf(proto: LoadedResponse): object {
  return {
    allowed: proto.overall_code !== "OVER_LIMIT",
    statuses: proto.statuses.map((status) => {
      const limit = status.current_limit;
      const reset = status.duration_until_reset;
      const unit = String(limit?.unit).toLowerCase();
      return {
        allowed: status.code !== "OVER_LIMIT",
        ...(limit === null
          ? {}
          : {
              limit: {
                requestsPerUnit: limit.requests_per_unit,
                ...(UNITS.some((known) => known === unit) ? { unit } : {}),
                ...(limit.name === "" ? {} : { name: limit.name }),
              },
              remaining: status.limit_remaining,
            }),
        ...(reset === null ? {} : { resetSeconds: Number(reset.seconds) + (reset.nanos > 0 ? 1 : 0) }),
      };
    }),
    headers: Object.fromEntries(proto.response_headers_to_add.map(({ key, value }) => [key, value])),
    metadata: proto.dynamic_metadata === null ? {} : plainStruct(proto.dynamic_metadata),
  };
}

describe("an answer", () => {
  test("is read as proto-loader reads it, without fields that this version does not know", () => {
    fc.assert(
      fc.property(answer, (plain) => {
        const bytes = answerBytes(plain);
        const meaning = meaningOf(shouldRateLimit().responseDeserialize(bytes) as LoadedResponse);
        expect(readAnswer(bytes)).toEqual(meaning);
        expect(readAnswer(Buffer.concat([UNKNOWN_FIELDS, bytes, UNKNOWN_FIELDS]))).toEqual(meaning);
      }),
      { numRuns: runs(500) },
    );
  });

  test("that is cut or damaged is an Error that says so, or another answer; nothing else comes of it", () => {
    fc.assert(
      fc.property(answer, fc.nat(), fc.nat(255), (plain, at, byte) => {
        const bytes = answerBytes(plain);
        const damaged = Buffer.from(bytes);
        if (damaged.length > 0) damaged[at % damaged.length] = byte;
        for (const each of [bytes.subarray(0, at % (bytes.length + 1)), damaged]) {
          try {
            expect(typeof readAnswer(each).allowed).toBe("boolean");
          } catch (error) {
            expect(String(error)).toMatch(/^Error: the answer/);
          }
        }
      }),
      { numRuns: runs(500) },
    );
  });

  test("whose metadata is nested without end is refused", () => {
    const nested = (levels: number): Buffer =>
      levels === 0 ? varintField(4, 1) : bytesField(6, bytesField(1, nested(levels - 1)));
    const message = (levels: number) =>
      bytesField(6, bytesField(1, Buffer.concat([bytesField(1, "deep"), bytesField(2, nested(levels))])));
    expect(Object.keys(readAnswer(message(90)).metadata)).toEqual(["deep"]);
    expect(() => readAnswer(message(2_000))).toThrow("nested deeper than 100 levels");
  });
});
