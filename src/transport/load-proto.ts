// Loads proto/ for everything that is not hot: health, reflection, the command line client, the JSON side door, tests.

import { fileURLToPath } from "node:url";
import { createFileRegistry, type FileRegistry } from "@bufbuild/protobuf";
import { loadSync, type PackageDefinition } from "@grpc/proto-loader";
import { resolveDescriptors } from "./proto-descriptors.ts";

/** Full name of the rate limit service. */
export const RATE_LIMIT_SERVICE = "envoy.service.ratelimit.v3.RateLimitService";
/** Path of the method that asks for a decision. */
export const SHOULD_RATE_LIMIT_PATH = `/${RATE_LIMIT_SERVICE}/ShouldRateLimit`;
/** Full name of the health service. */
export const HEALTH_SERVICE = "grpc.health.v1.Health";

const FILES = ["envoy/service/ratelimit/v3/rls.proto", "grpc/health/v1/health.proto"];

// As many levels up from src/transport as from dist/transport.
const PROTO_ROOT = fileURLToPath(new URL("../../proto/", import.meta.url));

let loaded: PackageDefinition | undefined;

/**
 * Every type and service of proto/ by full name. Messages come as plain objects: fields as written in proto/, 64-bit
 * numbers and enums as strings (an enum number without a name as the number), absent fields with their defaults.
 */
export function loadProto(): PackageDefinition {
  loaded ??= loadSync(FILES, {
    includeDirs: [PROTO_ROOT],
    keepCase: true,
    longs: String,
    enums: String,
    defaults: true,
    oneofs: true,
  });
  return loaded;
}

/** The types of proto/ in the form that reads and writes proto3 JSON. */
export function loadRegistry(): FileRegistry {
  return createFileRegistry(resolveDescriptors(loadProto()));
}
