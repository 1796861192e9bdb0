// Reads the answers on the stream (proto/envoy/service/discovery); their resources stay bytes.

import { createHash } from "node:crypto";
import type { LongWork } from "../../engine/base/long-work.ts";
import { malformed, WireReader, WireType } from "../../grpc/rls/wire.ts";

/** The type URL of the resources that the client asks for. */
export const RATE_LIMIT_TYPE = "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig";

/** A resource as it was sent. `value` is a buffer of its own. */
export interface WireResource {
  readonly typeUrl: string;
  readonly value: Buffer;
}

/** A DiscoveryResponse of a control plane. */
export interface DiscoveryAnswer {
  /** At most NAME_BYTES_MAX bytes; the rest of a longer one is cut, and `fault` says so. */
  readonly version: string;
  readonly nonce: string;
  /** The type of its resources; empty if it does not say. */
  readonly typeUrl: string;
  /** None if there is a `fault`. */
  readonly resources: readonly WireResource[];
  /** Equal for answers with the same resources in any order, and for answers with the same fault. */
  readonly digest: string;
  /** Which bound the answer exceeds; undefined if it keeps all of them. */
  readonly fault: string | undefined;
}

/** Bounds of a set: its resources, and the bytes of the unpacked message. */
export interface AnswerBounds {
  readonly resourcesMax: number;
  readonly messageBytesMax: number;
}

/** Longest version, nonce and type URL, in bytes. They are shown, logged and sent back. */
const NAME_BYTES_MAX = 1_024;
/** Fields that are read in one step. A field may have two bytes, so a message may have millions. */
const FIELDS_PER_STEP = 4_096;
/** Bytes that are hashed in one step. */
const HASHED_PER_STEP = 262_144;

/**
 * Reads an answer. Its resources are counted before anything is made of them. Throws RequestError if the bytes are no DiscoveryResponse,
 * or if the nonce, without which no answer can be refused, is longer than NAME_BYTES_MAX.
 */
export function* readAnswer(bytes: Buffer, bounds: AnswerBounds): LongWork<DiscoveryAnswer> {
  const wire = new WireReader();
  wire.open(bytes);
  const head = yield* readHead(wire, bytes);
  const fault = faultOf(head, bytes.length, bounds);
  const { version, nonce, typeUrl } = head;
  if (fault !== undefined) return { version: version.text, nonce, typeUrl, resources: [], digest: fault, fault };
  wire.open(bytes);
  const resources = yield* readResources(wire, bytes);
  return { version: version.text, nonce, typeUrl, resources, digest: yield* digestOf(resources), fault };
}

interface Head {
  version: { text: string; bytes: number };
  nonce: string;
  typeUrl: string;
  resources: number;
}

function* readHead(wire: WireReader, bytes: Buffer): LongWork<Head> {
  const head: Head = { version: { text: "", bytes: 0 }, nonce: "", typeUrl: "", resources: 0 };
  for (let fields = 1; wire.position < wire.end; fields++) {
    if (fields % FIELDS_PER_STEP === 0) yield;
    const field = readField(wire);
    if (field === 0) continue;
    const start = wire.position;
    const end = wire.readEnd();
    if (field === 1) head.version = { bytes: end - wire.position, text: readName(wire, bytes, end) };
    else if (field === 2) head.resources++;
    else if (field === 4) head.typeUrl = readName(wire, bytes, end);
    else if (field === 5) {
      if (end - wire.position > NAME_BYTES_MAX) throw malformed(`a nonce of at most ${NAME_BYTES_MAX} bytes`, start);
      head.nonce = readName(wire, bytes, end);
    }
    wire.position = end;
  }
  return head;
}

function faultOf({ version, resources }: Head, bytes: number, bounds: AnswerBounds): string | undefined {
  const { resourcesMax, messageBytesMax } = bounds;
  if (version.bytes > NAME_BYTES_MAX)
    return `expected a version of at most ${NAME_BYTES_MAX} bytes, got ${version.bytes}`;
  if (resources > resourcesMax)
    return `expected at most ${resourcesMax} resources (XDS_RESOURCES_MAX), got ${resources}`;
  if (bytes > messageBytesMax)
    return `expected a set of at most ${messageBytesMax} bytes (XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES), got ${bytes}`;
  return undefined;
}

/** The digest of resources, independent of their order, because servers send them in the random order of a map: the sum of their hashes. */
export function* digestOf(resources: readonly WireResource[]): LongWork<string> {
  const sums = new BigUint64Array(4);
  for (const { typeUrl, value } of resources) {
    const hash = createHash("sha256").update(typeUrl).update("\n");
    for (let at = 0; at < value.length; at += HASHED_PER_STEP) {
      hash.update(value.subarray(at, at + HASHED_PER_STEP));
      yield;
    }
    const digest = hash.digest();
    // The array keeps 64 bits of each sum.
    for (let i = 0; i < sums.length; i++) sums[i] = (sums[i] as bigint) + digest.readBigUInt64LE(8 * i);
    yield;
  }
  return Buffer.from(sums.buffer).toString("hex");
}

function* readResources(wire: WireReader, bytes: Buffer): LongWork<WireResource[]> {
  const resources: WireResource[] = [];
  while (wire.position < wire.end) {
    const field = readField(wire);
    if (field === 0) continue;
    const end = wire.readEnd();
    if (field === 2) {
      wire.end = end;
      resources.push(yield* readResource(wire, bytes));
      wire.end = bytes.length;
    }
    wire.position = end;
    yield;
  }
  return resources;
}

function* readResource(wire: WireReader, bytes: Buffer): LongWork<WireResource> {
  let typeUrl = "";
  let value: Buffer = Buffer.alloc(0);
  for (let fields = 1; wire.position < wire.end; fields++) {
    if (fields % FIELDS_PER_STEP === 0) yield;
    const field = readField(wire);
    if (field === 0) continue;
    const end = wire.readEnd();
    if (field === 1) typeUrl = readName(wire, bytes, end);
    // A copy: a view would keep the whole message in memory, and the whole message would be cloned for the parser's thread.
    else if (field === 2) value = Buffer.from(new Uint8Array(bytes.subarray(wire.position, end)).buffer);
    wire.position = end;
  }
  return { typeUrl, value };
}

/** Reads a tag. Returns the number of a field that holds bytes; 0 for another field, which is skipped. */
function readField(wire: WireReader): number {
  const tag = wire.readTag();
  const type = tag & 7;
  if (type === WireType.bytes) return tag >>> 3;
  // A group can be as long as the message. proto3 has none.
  if (type === WireType.startGroup) throw malformed("no group", wire.position);
  wire.skip(tag);
  return 0;
}

function readName(wire: WireReader, bytes: Buffer, end: number): string {
  return bytes.toString("utf8", wire.position, Math.min(end, wire.position + NAME_BYTES_MAX));
}
