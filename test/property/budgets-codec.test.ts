// The codec of headgate.v1.Budgets equals other implementations of its proto file on generated messages, and fails in one way only.

import { type DescMessage, fromBinary, toBinary } from "@bufbuild/protobuf";
import type { MessageTypeDefinition } from "@grpc/proto-loader";
import fc from "fast-check";
import { expect, test } from "vitest";
import {
  readReserved as clientReserved,
  readSettled as clientSettled,
} from "../../packages/client/src/budgets-wire.ts";
import { WireWriter } from "../../src/base/wire.ts";
import { HoldAsk, LimitRequest, textOf } from "../../src/engine/domain/request.ts";
import { decodeHoldRequest, encodeReserved, encodeSettled } from "../../src/grpc/rls/budgets.ts";
import { loadRegistry } from "../../src/grpc/transport/load-proto.ts";
import { readReserved, readSettled } from "../support/budgets.ts";
import { loadProto } from "../support/load-proto.ts";
import { holdFields, text } from "../support/request-arbitrary.ts";
import { runs } from "../support/runs.ts";
import { bytesField } from "../support/wire.ts";

const registry = loadRegistry();
const pooled = new LimitRequest();
const writer = new WireWriter();

interface ProtoHold {
  readonly domain: string;
  readonly entries: readonly { readonly key: string; readonly value: string }[];
  readonly id: string;
  readonly amount: string;
  readonly used: string;
}

function plainOf(message: Buffer, ask: HoldAsk) {
  decodeHoldRequest(message, ask, pooled);
  const [descriptor] = pooled.descriptors;
  const keys = descriptor?.keys.slice(0, descriptor.entryCount) ?? [];
  return {
    domain: textOf(pooled.domain),
    entries: keys.map((key, i) => ({ key: textOf(key), value: textOf(descriptor?.values[i] ?? "") })),
    id: textOf(pooled.holdId),
    number: pooled.holdAmount,
    descriptors: pooled.descriptorCount,
    ask: pooled.holdAsk,
  };
}

// Promise(grpc): Budgets reads messages as its proto file defines them.
test.each([
  { name: "ReserveRequest", ask: HoldAsk.reserve, number: "amount" as const },
  { name: "SettleRequest", ask: HoldAsk.settle, number: "used" as const },
])(
  "$name is read as proto-loader reads it: any order, unknown fields, repeated scalars, 64-bit values, any text",
  ({ name, ask, number }) => {
    const loaderType = loadProto()[`headgate.v1.${name}`] as MessageTypeDefinition<object, ProtoHold>;
    fc.assert(
      fc.property(holdFields, (parts) => {
        // Without an entry or an id it is refused, whatever else it says.
        const message = Buffer.concat([bytesField(2, ""), bytesField(3, "id"), ...parts, bytesField(3, "id")]);
        const { domain, entries, id, ...others } = loaderType.deserialize(message) as ProtoHold;
        const expected = { domain, entries, id, number: Number(others[number]), descriptors: 1, ask };
        expect(plainOf(message, ask)).toEqual(expected);
      }),
      { numRuns: runs(300) },
    );
  },
);

const count = fc.oneof(fc.constantFrom(0, 1, 127, 128, 2 ** 32, Number.MAX_SAFE_INTEGER), fc.nat());
const wellFormed = text.map((chars) => Buffer.from(chars).toString());
const degraded = fc.option(fc.record({ policy: wellFormed, failure: wellFormed }), { nil: undefined });

const inClient = (why: object | undefined) => (why === undefined ? {} : { degraded: { by: "server", ...why } });

test("an answer to Reserve reads as what it was made of, in the client too, and is canonical", () => {
  const type = registry.getMessage("headgate.v1.ReserveResponse") as DescMessage;
  const model = fc.record({
    overLimit: fc.boolean(),
    remaining: count,
    retryAfterSeconds: fc.option(fc.nat(), { nil: undefined }),
    rule: wellFormed,
    reason: wellFormed,
    reserved: count,
    degraded,
  });
  fc.assert(
    fc.property(model, (wanted) => {
      const bytes = Buffer.from(encodeReserved(wanted, writer));
      const { overLimit, retryAfterSeconds, ...same } = wanted;
      expect(readReserved(bytes)).toEqual({
        ...same,
        code: overLimit ? "OVER_LIMIT" : "OK",
        retryAfter: retryAfterSeconds,
        degraded: wanted.degraded ?? null,
      });
      expect(clientReserved(bytes)).toEqual({
        allowed: !overLimit,
        reserved: wanted.reserved,
        remaining: wanted.remaining,
        ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }),
        ...(wanted.rule === "" ? {} : { rule: wanted.rule }),
        ...(wanted.reason === "" ? {} : { reason: wanted.reason }),
        ...inClient(wanted.degraded),
      });
      expect(Buffer.from(toBinary(type, fromBinary(type, bytes)))).toEqual(bytes);
    }),
    { numRuns: runs(300) },
  );
});

test("an answer to Settle reads as what it was made of, in the client too, and is canonical", () => {
  const type = registry.getMessage("headgate.v1.SettleResponse") as DescMessage;
  const found = fc.constantFrom(
    ["settled", "SETTLED"] as const,
    ["unknown", "UNKNOWN"] as const,
    ["already_settled", "ALREADY_SETTLED"] as const,
  );
  fc.assert(
    fc.property(found, count, degraded, ([number, name], remaining, why) => {
      const bytes = Buffer.from(encodeSettled({ found: number, remaining, degraded: why }, writer));
      expect(readSettled(bytes)).toEqual({ found: name, remaining, degraded: why ?? null });
      expect(clientSettled(bytes)).toEqual({ found: name.toLowerCase(), remaining, ...inClient(why) });
      expect(Buffer.from(toBinary(type, fromBinary(type, bytes)))).toEqual(bytes);
    }),
    { numRuns: runs(200) },
  );
});
