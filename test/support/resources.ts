// RateLimitConfig messages as control planes send them, from plain objects in proto field names.

import { resolve } from "node:path";
import { loadSync, type MessageTypeDefinition } from "@grpc/proto-loader";
import type { SourceFile } from "../../src/engine/rules/source.ts";
import { parseHere } from "../../src/rule-sources/files/parse-in-thread.ts";

const PROTO_ROOT = resolve(import.meta.dirname, "../../proto");
const TYPE = "ratelimit.config.ratelimit.v3.RateLimitConfig";

const definition = loadSync("ratelimit/config/ratelimit/v3/rls_conf.proto", {
  includeDirs: [PROTO_ROOT],
  keepCase: true,
})[TYPE] as unknown as MessageTypeDefinition<object, object> & { serialize(message: object): Buffer };

/** A descriptor of a resource. `metadata` is a google.protobuf.Struct as proto-loader takes it. */
export interface WireDescriptor {
  readonly key?: string;
  readonly value?: string;
  readonly rate_limit?: {
    readonly unit?: string | number;
    readonly requests_per_unit?: number;
    readonly unlimited?: boolean;
    readonly name?: string;
    readonly replaces?: readonly { readonly name?: string }[];
  };
  readonly descriptors?: readonly WireDescriptor[];
  readonly shadow_mode?: boolean;
  readonly detailed_metric?: boolean;
  readonly quota_mode?: boolean;
  readonly metadata?: object;
}

export interface WireConfig {
  readonly name?: string;
  readonly domain?: string;
  readonly descriptors?: readonly WireDescriptor[];
}

/** The message's bytes, by another library than the one that reads them. */
export function resourceBytes(config: WireConfig): Buffer {
  return definition.serialize(config);
}

/** The resource's tree, as the compiler takes it. */
export function resourceFile(config: WireConfig | Buffer): SourceFile {
  const bytes = Buffer.isBuffer(config) ? config : resourceBytes(config);
  const [file] = parseHere([{ name: "", bytes, isResource: true }]);
  if (file === undefined) throw new Error("no file");
  return file;
}
