// The types of proto/, for everything off the hot path: health, reflection, the command line, the JSON endpoint.

import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import {
  create,
  createFileRegistry,
  type DescMessage,
  type FileRegistry,
  fromBinary,
  fromJson,
  type JsonValue,
  toBinary,
  toJson,
} from "@bufbuild/protobuf";
import { FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { invariant } from "../../engine/base/invariant.ts";
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

let registry: FileRegistry | undefined;

/** The types of proto/, from the descriptors that proto/describe.mjs has made of it. */
export function loadRegistry(): FileRegistry {
  registry ??= createFileRegistry(fromBinary(FileDescriptorSetSchema, readFileSync(`${PROTO_ROOT}descriptors.binpb`)));
  return registry;
}

/**
 * How messages of a type become JSON and back: fields are named as in proto/, enums by name, numbers of 64 bits and durations are text. What
 * is left out has its default; only messages are undefined.
 */
export function jsonMessages<Message>(name: string): {
  toBytes(message: object): Buffer;
  fromBytes(bytes: Buffer): Message;
} {
  const typeOf = () => {
    const type = loadRegistry().getMessage(name);
    invariant(type !== undefined, `proto/ defines ${name}`);
    return type;
  };
  const form = { useProtoFieldName: true, alwaysEmitImplicit: true };
  return {
    toBytes: (message) => Buffer.from(toBinary(typeOf(), fromJson(typeOf(), message as JsonValue))),
    fromBytes: (bytes) => toJson(typeOf(), fromBinary(typeOf(), bytes), form) as Message,
  };
}

/** The methods of a service, at the paths of the name `as`, by name. Their messages are those of loadRegistry; enums are numbers. */
export function messageMethods(
  name: string,
  handlers: Readonly<Record<string, MessageMethod["handle"]>>,
  as = name,
): readonly MessageMethod[] {
  const service = loadRegistry().getService(name);
  invariant(service !== undefined, `proto/ defines ${name}`);
  return service.methods.map(({ name: methodName, methodKind, input, output }) => {
    const handle = handlers[methodName];
    invariant(handle !== undefined, `${name}/${methodName} has a handler`);
    const definition = {
      path: `/${as}/${methodName}`,
      requestStream: methodKind === "client_streaming" || methodKind === "bidi_streaming",
      responseStream: methodKind === "server_streaming" || methodKind === "bidi_streaming",
      requestSerialize: (message: object) => encoded(input, message),
      requestDeserialize: (bytes: Buffer) => fromBinary(input, bytes),
      responseSerialize: (message: object) => encoded(output, message),
      responseDeserialize: (bytes: Buffer) => fromBinary(output, bytes),
    };
    return { definition, handle };
  });
}

function encoded(type: DescMessage, fields: object): Buffer {
  return Buffer.from(toBinary(type, create(type, fields as Record<string, unknown>)));
}
