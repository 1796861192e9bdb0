// The types of proto/ by proto-loader: another reader and writer of its messages than those of the service.

import { resolve } from "node:path";
import { loadSync } from "@grpc/proto-loader";

const PROTO_ROOT = resolve(import.meta.dirname, "../../proto");
const FILES = [
  "envoy/service/ratelimit/v3/rls.proto",
  "envoy/service/rate_limit_quota/v3/rlqs.proto",
  "headgate/v1/budgets.proto",
  "grpc/health/v1/health.proto",
];
const definition = loadSync(FILES, {
  includeDirs: [PROTO_ROOT],
  keepCase: true,
  longs: String,
  enums: String,
  defaults: true,
  oneofs: true,
});

/**
 * Every type and service of proto/ by full name. Fields are named as in proto/, 64-bit numbers and enums are strings (an unknown enum number
 * stays a number), absent fields have their defaults.
 */
export function loadProto(): typeof definition {
  return definition;
}

interface ShouldRateLimit {
  readonly path: string;
  requestSerialize(request: object): Buffer;
  requestDeserialize(message: Buffer): object;
  responseSerialize(answer: object): Buffer;
  responseDeserialize(message: Buffer): object;
}

/** The method, in the same form. */
export function shouldRateLimit(): ShouldRateLimit {
  const service = definition["envoy.service.ratelimit.v3.RateLimitService"];
  return (service as unknown as { readonly ShouldRateLimit: ShouldRateLimit }).ShouldRateLimit;
}
