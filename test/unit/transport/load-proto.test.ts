// The files of proto/ agree with the public protocol in paths and numbers, and are whole.

import { fromBinary } from "@bufbuild/protobuf";
import { FileDescriptorProtoSchema } from "@bufbuild/protobuf/wkt";
import { expect, test } from "vitest";
import {
  BUDGETS_SERVICE,
  HEALTH_SERVICE,
  loadFileDescriptors,
  loadProto,
  loadRegistry,
  RATE_LIMIT_SERVICE,
} from "../../../src/grpc/transport/load-proto.ts";

test("loads all services with their public paths", () => {
  const proto = loadProto();
  const paths = [RATE_LIMIT_SERVICE, BUDGETS_SERVICE, HEALTH_SERVICE].flatMap((name) =>
    Object.values(proto[name] as object).map((method: { path: string }) => method.path),
  );
  expect(paths).toEqual([
    "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit",
    "/headgate.v1.Budgets/Reserve",
    "/headgate.v1.Budgets/Settle",
    "/grpc.health.v1.Health/Check",
    "/grpc.health.v1.Health/Watch",
    "/grpc.health.v1.Health/List",
  ]);
});

test("numbers the fields and enum values as the protocol does", () => {
  const registry = loadRegistry();
  const fields = (name: string) => registry.getMessage(name)?.fields.map((field) => `${field.number} ${field.name}`);
  expect(fields("envoy.service.ratelimit.v3.RateLimitRequest")).toEqual(["1 domain", "2 descriptors", "3 hits_addend"]);
  expect(fields("envoy.extensions.common.ratelimit.v3.RateLimitDescriptor")).toEqual([
    "1 entries",
    "2 limit",
    "3 hits_addend",
    "4 is_negative_hits",
  ]);
  expect(fields("envoy.service.ratelimit.v3.RateLimitResponse")).toEqual([
    "1 overall_code",
    "2 statuses",
    "3 response_headers_to_add",
    "4 request_headers_to_add",
    "5 raw_body",
    "6 dynamic_metadata",
  ]);
  const units = registry.getEnum("envoy.service.ratelimit.v3.RateLimitResponse.RateLimit.Unit")?.values;
  expect(units?.map(({ number, name }) => `${number} ${name}`).sort()).toEqual([
    "0 UNKNOWN",
    "1 SECOND",
    "2 MINUTE",
    "3 HOUR",
    "4 DAY",
    "5 MONTH",
    "6 YEAR",
    "7 WEEK",
  ]);
});

test("names every type in full and puts files after those they depend on", () => {
  const seen = new Set<string>();
  for (const bytes of loadFileDescriptors()) {
    const file = fromBinary(FileDescriptorProtoSchema, bytes);
    expect(file.dependency.filter((name) => !seen.has(name))).toEqual([]);
    seen.add(file.name);
    const references = file.messageType.flatMap((type) => type.field.map((field) => field.typeName));
    expect(references.filter((name) => name !== "" && !name.startsWith("."))).toEqual([]);
  }
  expect(seen.size).toBeGreaterThan(4);
});
