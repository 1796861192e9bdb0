// Loads proto/ for everything off the hot path: health, reflection, the command line, the JSON endpoint, tests.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import {
  create,
  createFileRegistry,
  type DescMessage,
  type FileRegistry,
  fromBinary,
  toBinary,
} from "@bufbuild/protobuf";
import { FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import type * as ProtoLoader from "@grpc/proto-loader";
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

const FILES = ["envoy/service/ratelimit/v3/rls.proto", "headgate/v1/budgets.proto", "grpc/health/v1/health.proto"];

// proto/ is as many levels above src/grpc/transport as above dist/grpc/transport.
const PROTO_ROOT = fileURLToPath(new URL("../../../proto/", import.meta.url));

let definition: ProtoLoader.PackageDefinition | undefined;

/**
 * Every type and service of proto/ by full name. Messages are plain objects: fields are named as in proto/, 64-bit numbers and enums
 * are strings (an unknown enum number stays a number), and absent fields have their defaults. The service does not call this: reading the
 * files takes it longer than the rest of its start.
 */
export function loadProto(): ProtoLoader.PackageDefinition {
  const { loadSync } = createRequire(import.meta.url)("@grpc/proto-loader") as typeof ProtoLoader;
  definition ??= loadSync(FILES, {
    includeDirs: [PROTO_ROOT],
    keepCase: true,
    longs: String,
    enums: String,
    defaults: true,
    oneofs: true,
  });
  return definition;
}

let registry: FileRegistry | undefined;

/** The types of proto/, from the descriptors that proto/describe.mjs has made of it. */
export function loadRegistry(): FileRegistry {
  registry ??= createFileRegistry(fromBinary(FileDescriptorSetSchema, readFileSync(`${PROTO_ROOT}descriptors.binpb`)));
  return registry;
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
