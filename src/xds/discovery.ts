// Reads the answers on the stream (proto/envoy/service/discovery); their resources stay bytes.

import { createHash } from "node:crypto";
import { WireReader, WireType } from "../rls/wire-reader.ts";

/** The type URL of the resources that the client asks for. */
export const RATE_LIMIT_TYPE = "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig";

/** A resource as it was sent. `value` is a buffer of its own. */
export interface WireResource {
  readonly typeUrl: string;
  readonly value: Buffer;
}

/** A DiscoveryResponse of a control plane. */
export interface DiscoveryAnswer {
  readonly version: string;
  readonly nonce: string;
  /** The type of its resources; empty if it does not say. */
  readonly typeUrl: string;
  readonly resources: readonly WireResource[];
  /** SHA-256 in hex, equal for answers with the same resources in any order. */
  readonly digest: string;
}

/** Reads an answer. Throws RequestError if the bytes are no DiscoveryResponse. */
export function readAnswer(bytes: Buffer): DiscoveryAnswer {
  const answer = { version: "", nonce: "", typeUrl: "", resources: [] as WireResource[] };
  const wire = new WireReader();
  wire.open(bytes);
  eachField(wire, bytes.length, (field) => {
    if (field === 1) answer.version = readText(wire, bytes);
    else if (field === 2) answer.resources.push(readResource(wire, bytes));
    else if (field === 4) answer.typeUrl = readText(wire, bytes);
    else if (field === 5) answer.nonce = readText(wire, bytes);
    else return false;
    return true;
  });
  return { ...answer, digest: digestOf(answer.resources) };
}

/** The digest of resources, independent of their order: servers send them in the random order of a map. */
export function digestOf(resources: readonly WireResource[]): string {
  const parts = resources.map(({ typeUrl, value }) =>
    createHash("sha256").update(typeUrl).update("\n").update(value).digest("hex"),
  );
  return createHash("sha256").update(parts.sort().join("\n")).digest("hex");
}

function readResource(wire: WireReader, bytes: Buffer): WireResource {
  const resource = { typeUrl: "", value: Buffer.alloc(0) as Buffer };
  const outer = wire.end;
  eachField(wire, wire.readEnd(), (field) => {
    if (field === 1) resource.typeUrl = readText(wire, bytes);
    else if (field === 2) resource.value = readBytes(wire, bytes);
    else return false;
    return true;
  });
  wire.end = outer;
  return resource;
}

function eachField(wire: WireReader, end: number, readField: (field: number) => boolean): void {
  wire.end = end;
  while (wire.position < end) {
    const tag = wire.readTag();
    const isBytes = (tag & 7) === WireType.bytes;
    // All known fields are length-delimited.
    if (!isBytes || !readField(tag >>> 3)) wire.skip(tag);
  }
}

function readText(wire: WireReader, bytes: Buffer): string {
  return readBytes(wire, bytes).toString("utf8");
}

// A copy: a view would keep the whole message in memory, and the whole message would be cloned for the parser's thread.
function readBytes(wire: WireReader, bytes: Buffer): Buffer {
  const end = wire.readEnd();
  const part = new Uint8Array(bytes.subarray(wire.position, end));
  wire.position = end;
  return Buffer.from(part.buffer);
}
