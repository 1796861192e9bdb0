// The services of proto/ by @grpc/proto-loader, as grpc-js takes them: for the grpc-js server and the commands'
// clients. Reading the files takes 90 ms and 10 MB, so nothing that the fast lane loads imports this.

import { fileURLToPath } from "node:url";
import { loadSync, type MethodDefinition, type PackageDefinition } from "@grpc/proto-loader";
import { invariant } from "../../base/invariant.ts";

// proto/ is as many levels above src/grpc/transport as above dist/grpc/transport.
const PROTO_ROOT = fileURLToPath(new URL("../../../proto/", import.meta.url));
const FILES = [
  "envoy/service/ratelimit/v3/rls.proto",
  "headgate/v1/budgets.proto",
  "envoy/service/rate_limit_quota/v3/rlqs.proto",
];

let services: PackageDefinition | undefined;

/**
 * The method of `/package.Service/Method`. Its messages are plain objects: fields are named as in proto/, enums are
 * names, numbers of 64 bits are text, and what is absent has its default.
 */
export function methodDefinition(path: string): MethodDefinition<object, object> {
  services ??= loadSync(FILES, {
    includeDirs: [PROTO_ROOT],
    keepCase: true,
    longs: String,
    enums: String,
    defaults: true,
    oneofs: true,
  });
  const [, service = "", method = ""] = path.split("/");
  const found = (services[service] as Readonly<Record<string, MethodDefinition<object, object>>> | undefined)?.[method];
  invariant(found !== undefined, `proto/ defines ${path}`);
  return found;
}
