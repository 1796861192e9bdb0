// The codec of ShouldRateLimit equals other implementations of proto/ on generated requests, and fails in one way only.

import { type DescMessage, fromBinary } from "@bufbuild/protobuf";
import type { MessageTypeDefinition } from "@grpc/proto-loader";
import fc from "fast-check";
import { expect, test } from "vitest";
import { RequestError } from "../../src/engine/base/errors.ts";
import { UNIT_NAMES } from "../../src/engine/domain/limit.ts";
import { LimitRequest } from "../../src/engine/domain/request.ts";
import { decodeRequest } from "../../src/grpc/rls/codec.ts";
import { loadProto, loadRegistry } from "../../src/grpc/transport/load-proto.ts";
import type { ProtoRequest } from "../support/client-wire.ts";
import { type PlainRequest, plainOf, requestFields, requestFieldsWithMerges } from "../support/request-arbitrary.ts";
import { runs } from "../support/runs.ts";

const REQUEST = "envoy.service.ratelimit.v3.RateLimitRequest";
const loaderType = loadProto()[REQUEST] as MessageTypeDefinition<object, ProtoRequest>;
const registryType = loadRegistry().getMessage(REQUEST) as DescMessage;
const pooled = new LimitRequest();

function decode(message: Buffer): PlainRequest {
  decodeRequest(message, pooled);
  return plainOf(pooled);
}

function decodeByLoader(message: Buffer): PlainRequest {
  const request = loaderType.deserialize(message) as ProtoRequest;
  return {
    domain: request.domain,
    hitsAddend: request.hits_addend,
    descriptors: request.descriptors.map((descriptor) => ({
      entries: descriptor.entries.map(({ key, value }) => [key, value] as const),
      override: descriptor.limit
        ? { amount: descriptor.limit.requests_per_unit, unit: unitNumber(descriptor.limit.unit) }
        : undefined,
      hits: descriptor.hits_addend ? Number(descriptor.hits_addend.value) : undefined,
      isRefund: descriptor.is_negative_hits,
    })),
  };
}

function unitNumber(unit: string | number): number {
  return typeof unit === "number" ? unit : UNIT_NAMES.indexOf(unit.toLowerCase() as (typeof UNIT_NAMES)[number]);
}

interface RegistryRequest {
  readonly domain: string;
  readonly hitsAddend: number;
  readonly descriptors: readonly {
    readonly entries: readonly { readonly key: string; readonly value: string }[];
    readonly limit?: { readonly requestsPerUnit: number; readonly unit: number };
    // Wrappers are unwrapped.
    readonly hitsAddend?: bigint;
    readonly isNegativeHits: boolean;
  }[];
}

function decodeByRegistry(message: Buffer): PlainRequest {
  const request = fromBinary(registryType, message) as unknown as RegistryRequest;
  return {
    domain: request.domain,
    hitsAddend: request.hitsAddend,
    descriptors: request.descriptors.map((descriptor) => ({
      entries: descriptor.entries.map(({ key, value }) => [key, value] as const),
      override: descriptor.limit && { amount: descriptor.limit.requestsPerUnit, unit: descriptor.limit.unit },
      hits: descriptor.hitsAddend === undefined ? undefined : Number(descriptor.hitsAddend),
      isRefund: descriptor.isNegativeHits,
    })),
  };
}

function errorOf(message: Buffer): unknown {
  try {
    decodeRequest(message, pooled);
    return undefined;
  } catch (error) {
    return error;
  }
}

test("reads what proto-loader reads: any order, unknown fields, repeated scalars, 64-bit values, any text", () => {
  fc.assert(
    fc.property(requestFields, (fields) => {
      const message = Buffer.concat(fields);
      expect(decode(message)).toEqual(decodeByLoader(message));
    }),
    { numRuns: runs(500) },
  );
});

test("merges embedded messages that come twice, as proto3 says", () => {
  fc.assert(
    fc.property(requestFieldsWithMerges, (fields) => {
      const message = Buffer.concat(fields);
      expect(decode(message)).toEqual(decodeByRegistry(message));
    }),
    { numRuns: runs(500) },
  );
});

test("a message cut between fields is read, one cut anywhere else is malformed", () => {
  fc.assert(
    fc.property(requestFieldsWithMerges, (fields) => {
      const message = Buffer.concat(fields);
      const boundaries = new Set([0]);
      let at = 0;
      for (const field of fields) {
        at += field.length;
        boundaries.add(at);
      }
      for (let length = 0; length <= message.length; length++) {
        // A slice of a larger buffer: reading past its end would find the bytes that were cut.
        const error = errorOf(message.subarray(0, length)) as RequestError | undefined;
        expect(error?.code, `cut at ${length}`).toBe(boundaries.has(length) ? undefined : "REQUEST_MALFORMED");
      }
    }),
    { numRuns: runs(60) },
  );
});

test("10,000 random byte strings are read or refused with a RequestError", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 64 }), (bytes) => {
      const error = errorOf(Buffer.from(bytes));
      expect(error === undefined || error instanceof RequestError).toBe(true);
    }),
    { numRuns: runs(10_000) },
  );
});

test("messages with damaged bytes are read or refused with a RequestError", () => {
  fc.assert(
    fc.property(requestFields, fc.array(fc.tuple(fc.nat(), fc.nat(255)), { maxLength: 4 }), (fields, damage) => {
      const message = Buffer.concat(fields);
      for (const [at, byte] of damage) if (message.length > 0) message[at % message.length] = byte;
      const error = errorOf(message);
      expect(error === undefined || error instanceof RequestError).toBe(true);
    }),
    { numRuns: runs(2_000) },
  );
});
