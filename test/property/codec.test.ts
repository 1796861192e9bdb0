// The codec of ShouldRateLimit equals another implementation of proto/ on generated requests, and fails in one way only.

import { type DescMessage, fromBinary } from "@bufbuild/protobuf";
import fc from "fast-check";
import { expect, test } from "vitest";
import type { RequestError } from "../../src/base/errors.ts";
import { LimitRequest } from "../../src/engine/domain/request.ts";
import { decodeRequest } from "../../src/grpc/rls/codec.ts";
import { loadRegistry } from "../../src/grpc/transport/load-proto.ts";
import { type PlainRequest, plainOf, requestFields } from "../support/request-arbitrary.ts";
import { runs } from "../support/runs.ts";

const REQUEST = "envoy.service.ratelimit.v3.RateLimitRequest";
const registryType = loadRegistry().getMessage(REQUEST) as DescMessage;
const pooled = new LimitRequest();

function decode(message: Buffer): PlainRequest {
  decodeRequest(message, pooled);
  return plainOf(pooled);
}

interface RegistryRequest {
  readonly domain: string;
  readonly hitsAddend: number;
  readonly descriptors: readonly {
    readonly entries: readonly { readonly key: string; readonly value: string }[];
    readonly limit?: {
      readonly requestsPerUnit: number;
      readonly unit: number;
      readonly unitMultiplier?: number;
      readonly algorithm: string;
    };
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
      override: descriptor.limit && {
        amount: descriptor.limit.requestsPerUnit,
        unit: descriptor.limit.unit,
        units: descriptor.limit.unitMultiplier,
        algorithm: descriptor.limit.algorithm,
      },
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

test("reads any order, unknown fields, repeated scalars and messages, 64-bit values and any text as proto3 says", () => {
  fc.assert(
    fc.property(requestFields, (fields) => {
      const message = Buffer.concat(fields);
      expect(decode(message)).toEqual(decodeByRegistry(message));
    }),
    { numRuns: runs(500) },
  );
});

test("a message cut between fields is read, one cut anywhere else is malformed", () => {
  fc.assert(
    fc.property(requestFields, (fields) => {
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
