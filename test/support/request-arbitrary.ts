// Generated RateLimitRequest messages: as fields on the wire in any order, and what they mean in plain form.

import fc from "fast-check";
import { type LimitRequest, textOf } from "../../src/engine/domain/request.ts";
import { bytesField, fixedField, groupField, varintField } from "./wire.ts";

/** A request in the form that every decoder's result is brought to. */
export interface PlainRequest {
  readonly domain: string;
  readonly hitsAddend: number;
  readonly descriptors: readonly {
    readonly entries: readonly (readonly [key: string, value: string])[];
    readonly override:
      | {
          readonly amount: number;
          readonly unit: number;
          readonly units: number | undefined;
          readonly algorithm: string;
        }
      | undefined;
    readonly hits: number | undefined;
    readonly isRefund: boolean;
  }[];
}

export function plainOf(request: LimitRequest): PlainRequest {
  return {
    domain: textOf(request.domain),
    hitsAddend: request.hitsAddend,
    descriptors: request.descriptors.slice(0, request.descriptorCount).map((descriptor) => ({
      entries: descriptor.keys
        .slice(0, descriptor.entryCount)
        .map((key, i) => [textOf(key), textOf(descriptor.values[i] ?? "")] as const),
      override: descriptor.hasOverride
        ? {
            amount: descriptor.overrideAmount,
            unit: descriptor.overrideUnit,
            units: descriptor.overrideUnits < 0 ? undefined : descriptor.overrideUnits,
            algorithm: textOf(descriptor.overrideAlgorithm),
          }
        : undefined,
      hits: descriptor.hasHits ? descriptor.hits : undefined,
      isRefund: descriptor.isRefund,
    })),
  };
}

/** Text of all kinds: empty, ASCII, other scripts, longer than a short loop reads. */
export const text = fc.oneof(
  fc.constantFrom("", "remote_address", "10.0.0.1", "schlüssel", "鍵", "🗝️", "\u0000", "x".repeat(200), "ü".repeat(100)),
  fc.string({ unit: "binary", maxLength: 20 }),
);

const uint64 = fc.oneof(
  fc.constantFrom(0n, 1n, 127n, 128n, 2n ** 32n - 1n, 2n ** 32n, 2n ** 53n, 2n ** 63n, 2n ** 64n - 1n),
  fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
);
const uint32 = fc.oneof(fc.constantFrom(0, 1, 2 ** 31, 2 ** 32 - 1), fc.nat());
const int32 = fc.oneof(fc.constantFrom(0, 1, 4, 6, 7, 8, -1, -(2 ** 31), 2 ** 31 - 1), fc.nat(7));

// Numbers that no message of the request uses.
const unknownNumber = fc.constantFrom(5, 15, 16, 1_000, 536_870_911);
const unknownField = fc.oneof(
  fc.tuple(unknownNumber, uint64).map(([field, value]) => varintField(field, value)),
  fc.tuple(unknownNumber, fc.uint8Array({ minLength: 8, maxLength: 8 })).map(([field, b]) => fixedField(field, b)),
  fc.tuple(unknownNumber, fc.uint8Array({ minLength: 4, maxLength: 4 })).map(([field, b]) => fixedField(field, b)),
  fc.tuple(unknownNumber, fc.uint8Array({ maxLength: 5 })).map(([field, b]) => bytesField(field, b)),
  fc.tuple(unknownNumber, uint64).map(([field, value]) => groupField(field, groupField(1, varintField(2, value)))),
);

function fields(...known: fc.Arbitrary<Buffer>[]): fc.Arbitrary<Buffer[]> {
  return fc.array(
    fc.oneof(...known.map((arbitrary) => ({ weight: 3, arbitrary })), { weight: 1, arbitrary: unknownField }),
    {
      maxLength: 6,
    },
  );
}

function joined(parts: fc.Arbitrary<Buffer[]>): fc.Arbitrary<Buffer> {
  return parts.map((buffers) => Buffer.concat(buffers));
}

const entry = joined(
  fields(
    text.map((key) => bytesField(1, key)),
    text.map((value) => bytesField(2, value)),
  ),
);
const override = joined(
  fields(
    uint32.map((amount) => varintField(1, amount)),
    int32.map((unit) => varintField(2, unit)),
    joined(fields(uint32.map((units) => varintField(1, units)))).map((bytes) => bytesField(3, bytes)),
    text.map((algorithm) => bytesField(50_000, algorithm)),
  ),
);
const hits = joined(fields(uint64.map((value) => varintField(1, value))));
const entryField = entry.map((bytes) => bytesField(1, bytes));
const refundField = fc.constantFrom(0, 1).map((value) => varintField(4, value));
const overrideField = override.map((bytes) => bytesField(2, bytes));
const hitsField = hits.map((bytes) => bytesField(3, bytes));

const descriptor = joined(fields(entryField, refundField, overrideField, hitsField));

/** Fields of a request: any order, scalars and embedded messages repeated, unknown fields between them. */
export const requestFields: fc.Arbitrary<Buffer[]> = fields(
  text.map((domain) => bytesField(1, domain)),
  descriptor.map((bytes) => bytesField(2, bytes)),
  uint32.map((value) => varintField(3, value)),
);

/** Fields of a ReserveRequest or a SettleRequest. */
export const holdFields: fc.Arbitrary<Buffer[]> = fields(
  text.map((domain) => bytesField(1, domain)),
  entry.map((bytes) => bytesField(2, bytes)),
  text.map((id) => bytesField(3, id)),
  uint64.map((amount) => varintField(4, amount)),
);
