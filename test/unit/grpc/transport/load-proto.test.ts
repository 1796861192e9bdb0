// The files of proto/ agree with the public protocol in paths and numbers, and are whole.

import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { expect, test } from "vitest";
import { describeProto } from "../../../../proto/describe.mjs";
import { loadRegistry } from "../../../../src/grpc/transport/load-proto.ts";

test("proto/descriptors.binpb describes the files of proto/; `node proto/describe.mjs` writes it", () => {
  const kept = readFileSync(resolve(import.meta.dirname, "../../../../proto/descriptors.binpb"));
  expect(Buffer.from(describeProto()).equals(kept)).toBe(true);
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
  const words = "UNKNOWN SECOND MINUTE HOUR DAY MONTH YEAR WEEK".split(" ");
  expect(Object.fromEntries(units?.map(({ number, name }) => [number, name]) ?? [])).toEqual({ ...words });
});

test("names every type in full and puts files after those they depend on", () => {
  const seen = new Set<string>();
  for (const { proto: file } of loadRegistry().files) {
    expect(file.dependency.filter((name) => !seen.has(name))).toEqual([]);
    seen.add(file.name);
    const references = file.messageType.flatMap((type) => type.field.map((field) => field.typeName));
    expect(references.filter((name) => name !== "" && !name.startsWith("."))).toEqual([]);
  }
  expect(seen.size).toBeGreaterThan(4);
});
