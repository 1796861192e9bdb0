// Dynamic metadata as every client of loadProto meets it, on messages that went over the wire.

import type { MethodDefinition } from "@grpc/grpc-js";
import { expect, test } from "vitest";
import { writeStruct } from "../../../src/grpc/rls/codec.ts";
import { WireWriter } from "../../../src/grpc/rls/wire.ts";
import { loadProto, RATE_LIMIT_SERVICE } from "../../../src/grpc/transport/load-proto.ts";
import { plainStruct, type WireStruct } from "../../../src/grpc/transport/plain-struct.ts";

const DYNAMIC_METADATA = 6;

function overTheWire(members: Readonly<Record<string, unknown>>): WireStruct {
  const writer = new WireWriter();
  writer.clear();
  const at = writer.openMessage(DYNAMIC_METADATA);
  writeStruct(members, writer);
  writer.closeMessage(at);
  const service = loadProto()[RATE_LIMIT_SERVICE] as unknown as { ShouldRateLimit: MethodDefinition<object, object> };
  const answer = service.ShouldRateLimit.responseDeserialize(Buffer.from(writer.view()));
  return (answer as { dynamic_metadata: WireStruct }).dynamic_metadata;
}

test("reads every kind of value back", () => {
  const members = {
    text: "edge/user",
    empty: "",
    number: 12.5,
    zero: 0,
    yes: true,
    no: false,
    nothing: null,
    map: { policy: "local", inner: {} },
    list: [1, "b", [false], { c: null }],
  };
  expect(plainStruct(overTheWire(members))).toEqual(members);
});
