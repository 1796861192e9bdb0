// The types of proto/, for everything off the hot path: health, reflection, the command line, the JSON endpoint. The
// package that knows Protobuf takes several megabytes, so it is loaded when a message is first read or written.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import type * as Protobuf from "@bufbuild/protobuf";
import type { DescMessage, FileRegistry } from "@bufbuild/protobuf";
import type * as WellKnown from "@bufbuild/protobuf/wkt";
import { invariant } from "../../base/invariant.ts";
import type { MessageMethod } from "./transport.ts";

/** Full name of the rate limit service. */
export const RATE_LIMIT_SERVICE = "envoy.service.ratelimit.v3.RateLimitService";
/** Path of the method that decides a call. */
export const SHOULD_RATE_LIMIT_PATH = `/${RATE_LIMIT_SERVICE}/ShouldRateLimit`;
/** Full name of the service that reserves and settles budgets. */
export const BUDGETS_SERVICE = "headgate.v1.Budgets";
export const RESERVE_PATH = `/${BUDGETS_SERVICE}/Reserve`;
export const SETTLE_PATH = `/${BUDGETS_SERVICE}/Settle`;
/** Full name of the health service. */
export const HEALTH_SERVICE = "grpc.health.v1.Health";

// proto/ is as many levels above src/grpc/transport as above dist/grpc/transport.
const PROTO_ROOT = fileURLToPath(new URL("../../../proto/", import.meta.url));

const require = createRequire(import.meta.url);

export function protobuf(): typeof Protobuf {
  return require("@bufbuild/protobuf") as typeof Protobuf;
}

export function wellKnownTypes(): typeof WellKnown {
  return require("@bufbuild/protobuf/wkt") as typeof WellKnown;
}

let registry: FileRegistry | undefined;

/** The types of proto/, from the descriptors that proto/describe.mjs has made of it. */
export function loadRegistry(): FileRegistry {
  if (registry === undefined) {
    const { createFileRegistry, fromBinary } = protobuf();
    const { FileDescriptorSetSchema } = wellKnownTypes();
    const descriptors = readFileSync(`${PROTO_ROOT}descriptors.binpb`);
    registry = createFileRegistry(fromBinary(FileDescriptorSetSchema, descriptors));
  }
  return registry;
}

/**
 * Reads messages of a type as JSON: fields are named as in proto/, enums by name, numbers of 64 bits and durations are
 * text. What is left out has its default; only messages are undefined.
 */
export function jsonReader<Message>(name: string): (bytes: Buffer) => Message {
  const typeOf = () => messageType(name);
  const form = { useProtoFieldName: true, alwaysEmitImplicit: true };
  return (bytes) => protobuf().toJson(typeOf(), protobuf().fromBinary(typeOf(), bytes), form) as Message;
}

/** A message of proto/ by its full name. */
export function messageType(name: string): DescMessage {
  const type = loadRegistry().getMessage(name);
  invariant(type !== undefined, `proto/ defines ${name}`);
  return type;
}

/** A method whose messages are of types of proto/, by their full names; enums are numbers. */
export function messageMethod(
  path: string,
  types: { readonly request: string; readonly response: string; readonly streams?: "answers" | "both" },
  handle: MessageMethod["handle"],
): MessageMethod {
  const { request, response, streams } = types;
  const definition = {
    path,
    requestStream: streams === "both",
    responseStream: streams !== undefined,
    requestSerialize: (message: object) => encoded(request, message),
    requestDeserialize: (bytes: Buffer) => protobuf().fromBinary(messageType(request), bytes),
    responseSerialize: (message: object) => encoded(response, message),
    responseDeserialize: (bytes: Buffer) => protobuf().fromBinary(messageType(response), bytes),
  };
  return { definition, handle };
}

function encoded(name: string, fields: object): Buffer {
  const type = messageType(name);
  return Buffer.from(protobuf().toBinary(type, protobuf().create(type, fields as Record<string, unknown>)));
}
