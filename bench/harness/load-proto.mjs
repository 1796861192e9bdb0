// The types of proto/ by proto-loader, which benches compare our codec with.

import { fileURLToPath } from "node:url";
import { loadSync } from "@grpc/proto-loader";

const PROTO_ROOT = fileURLToPath(new URL("../../proto/", import.meta.url));

/** Every type and service of the rate limit protocol, by full name. */
export function loadProto() {
  const form = { keepCase: true, longs: String, enums: String, defaults: true, oneofs: true };
  return loadSync(["envoy/service/ratelimit/v3/rls.proto"], { includeDirs: [PROTO_ROOT], ...form });
}
