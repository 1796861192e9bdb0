// Answers written by the codec read as the decision they were made of, by two other implementations of proto/.

import { type DescMessage, fromBinary, toBinary } from "@bufbuild/protobuf";
import type { MessageTypeDefinition } from "@grpc/proto-loader";
import fc from "fast-check";
import { expect, test } from "vitest";
import { WireWriter } from "../../src/base/wire.ts";
import { UNIT_NAMES, Unit } from "../../src/engine/domain/limit.ts";
import { Decision } from "../../src/engine/limiter/call.ts";
import { encodeDecision } from "../../src/grpc/rls/codec.ts";
import { loadRegistry } from "../../src/grpc/transport/load-proto.ts";
import { makeLimit } from "../support/builders.ts";
import { loadProto } from "../support/load-proto.ts";
import { text } from "../support/request-arbitrary.ts";
import { runs } from "../support/runs.ts";

const RESPONSE = "envoy.service.ratelimit.v3.RateLimitResponse";
const loaderType = loadProto()[RESPONSE] as MessageTypeDefinition<object, object>;
const registryType = loadRegistry().getMessage(RESPONSE) as DescMessage;
const writer = new WireWriter();
const decision = new Decision();

const uint32 = fc.oneof(fc.constantFrom(0, 1, 127, 128, 2 ** 32 - 1), fc.nat());
// Half surrogate pairs are U+FFFD on the wire, so they would not compare equal; a unit test has them.
const wellFormed = fc.oneof(text, fc.string({ unit: "grapheme", maxLength: 100 }));
const statusModel = fc.record({
  overLimit: fc.boolean(),
  limit: fc.option(fc.record({ amount: uint32, unit: fc.nat(7), name: wellFormed }), { nil: undefined }),
  remaining: uint32,
  resetSeconds: fc.option(fc.oneof(uint32, fc.constant(315_576_000_000)), { nil: undefined }),
});
const { value: metadataValue } = fc.letrec((tie) => ({
  value: fc.oneof(
    { depthSize: "small" },
    fc.constantFrom(null, 0, -0, 1.5, Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, true, false),
    fc.double(),
    wellFormed,
    fc.array(tie("value"), { maxLength: 4 }),
    fc.dictionary(keyText(), tie("value"), { maxKeys: 4 }),
  ),
}));
const model = fc.record({
  overLimit: fc.boolean(),
  statuses: fc.array(statusModel, { maxLength: 5 }),
  headers: fc.array(fc.tuple(wellFormed, wellFormed), { maxLength: 4 }),
  metadata: fc.option(fc.dictionary(keyText(), metadataValue, { maxKeys: 4 }), { nil: undefined }),
});
type Model = typeof model extends fc.Arbitrary<infer T> ? T : never;

// The readers compared with can't hold a member of this name.
function keyText(): fc.Arbitrary<string> {
  return wellFormed.filter((key) => key !== "__proto__");
}

function fill({ overLimit, statuses, headers, metadata }: Model): void {
  decision.reset();
  decision.overLimit = overLimit;
  for (const wanted of statuses) {
    const status = decision.addStatus();
    status.overLimit = wanted.overLimit;
    status.limit =
      wanted.limit &&
      makeLimit({
        algorithm: 2,
        shownAmount: wanted.limit.amount,
        shownUnit: wanted.limit.unit as Unit,
        name: wanted.limit.name,
      });
    status.remaining = wanted.remaining;
    status.hasReset = wanted.resetSeconds !== undefined;
    status.resetSeconds = wanted.resetSeconds ?? 0;
  }
  for (const [key, value] of headers) decision.addHeader(key, value);
  decision.metadata = metadata as Record<string, unknown> | undefined;
}

function code(overLimit: boolean): string {
  return overLimit ? "OVER_LIMIT" : "OK";
}

function expected({ overLimit, statuses, headers, metadata }: Model): object {
  return {
    overall_code: code(overLimit),
    statuses: statuses.map((status) => ({
      code: code(status.overLimit),
      current_limit: status.limit
        ? {
            requests_per_unit: status.limit.amount,
            unit: UNIT_NAMES[status.limit.unit]?.toUpperCase(),
            name: status.limit.name,
            unit_multiplier: null,
          }
        : null,
      limit_remaining: status.remaining,
      duration_until_reset:
        status.resetSeconds === undefined ? null : { seconds: String(status.resetSeconds), nanos: 0 },
    })),
    response_headers_to_add: headers.map(([key, value]) => ({ key, value })),
    request_headers_to_add: [],
    raw_body: Buffer.alloc(0),
    dynamic_metadata: metadata === undefined ? null : structOf(metadata as Record<string, unknown>),
  };
}

function structOf(members: Readonly<Record<string, unknown>>): object {
  return { fields: Object.fromEntries(Object.entries(members).map(([key, value]) => [key, valueFor(value)])) };
}

function valueFor(value: unknown): object {
  if (value === null) return { kind: "nullValue", nullValue: "NULL_VALUE" };
  if (typeof value === "number") return { kind: "numberValue", numberValue: value };
  if (typeof value === "string") return { kind: "stringValue", stringValue: value };
  if (typeof value === "boolean") return { kind: "boolValue", boolValue: value };
  if (Array.isArray(value)) return { kind: "listValue", listValue: { values: value.map(valueFor) } };
  return { kind: "structValue", structValue: structOf(value as Record<string, unknown>) };
}

test("proto-loader reads back every part of a decision, and the registry writes the same bytes again", () => {
  fc.assert(
    fc.property(model, (wanted) => {
      fill(wanted);
      const bytes = Buffer.from(encodeDecision(decision, writer));
      expect(loaderType.deserialize(bytes)).toEqual(expected(wanted));
      expect(Buffer.from(toBinary(registryType, fromBinary(registryType, bytes)))).toEqual(bytes);
    }),
    { numRuns: runs(500) },
  );
});

test("a window that is no unit is told in seconds if callers understand it", () => {
  decision.reset();
  const half = {
    algorithm: 2,
    amount: 10,
    burst: 10,
    shownAmount: 10,
    shownUnit: Unit.unknown,
    windowSeconds: 30,
  } as const;
  const limits = [
    half,
    { ...half, shownUnit: Unit.minute, windowSeconds: 60 },
    { ...half, algorithm: 0, burst: 50 } as const,
  ];
  for (const limit of limits) decision.addStatus().limit = makeLimit(limit);
  const told = (hasMultiplier: boolean) => {
    const answer = loaderType.deserialize(Buffer.from(encodeDecision(decision, writer, hasMultiplier))) as Answer;
    return answer.statuses.map(({ current_limit: limit }) => [limit.unit, limit.unit_multiplier?.value]);
  };
  expect(told(false)).toEqual([
    ["UNKNOWN", undefined],
    ["MINUTE", undefined],
    ["UNKNOWN", undefined],
  ]);
  expect(told(true)).toEqual([
    ["SECOND", 30],
    ["MINUTE", undefined],
    ["UNKNOWN", undefined],
  ]);
});

interface Answer {
  readonly statuses: readonly {
    readonly current_limit: { readonly unit: string; readonly unit_multiplier: { readonly value: number } | null };
  }[];
}
