// The messages on the stream (proto/envoy/service/discovery): writes requests, and reads answers, whose resources stay
// bytes.

import { createHash } from "node:crypto";
import type { LongWork } from "../../base/long-work.ts";
import { malformed, WireReader, WireType, WireWriter } from "../../base/wire.ts";
import type { StreamRequest } from "./session.ts";

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
/** Longest refusal that is sent: servers may not read the whole list of a large set's mistakes. */
const REFUSAL_CHARS_MAX = 4_000;
/** Bytes that are hashed in one step. */
const HASHED_PER_STEP = 262_144;

/**
 * Reads an answer. Resources beyond the bound are counted only. Throws RequestError if the bytes are no
 * DiscoveryResponse, or if the nonce, without which no answer can be refused, is longer than NAME_BYTES_MAX.
 */
export function* readDiscoveryAnswer(bytes: Buffer, bounds: AnswerBounds): LongWork<DiscoveryAnswer> {
  const wire = new WireReader();
  wire.open(bytes);
  const head: Head = { version: "", versionBytes: 0, nonce: "", typeUrl: "", count: 0 };
  const resources: WireResource[] = [];
  const { resourcesMax, messageBytesMax } = bounds;
  for (let fields = 1; wire.position < wire.end; fields++) {
    if (fields % FIELDS_PER_STEP === 0) yield;
    const field = readField(wire);
    if (field === 0) continue;
    const end = wire.readEnd();
    if (field === 2 && ++head.count <= resourcesMax && bytes.length <= messageBytesMax) {
      wire.end = end;
      resources.push(yield* readResource(wire, bytes));
      wire.end = bytes.length;
      yield;
    } else readHeadField(head, field, wire, bytes, end);
    wire.position = end;
  }
  const { version, nonce, typeUrl } = head;
  const fault = faultOf(head, bytes.length, bounds);
  if (fault !== undefined) return { version, nonce, typeUrl, resources: [], digest: fault, fault };
  return { version, nonce, typeUrl, resources, digest: yield* digestOf(resources), fault };
}

interface Head {
  version: string;
  versionBytes: number;
  nonce: string;
  typeUrl: string;
  /** Number of resources. */
  count: number;
}

function readHeadField(head: Head, field: number, wire: WireReader, bytes: Buffer, end: number): void {
  const text = readName(wire, bytes, end);
  const length = end - wire.position;
  if (field === 1) {
    head.version = text;
    head.versionBytes = length;
  } else if (field === 4) head.typeUrl = text;
  else if (field === 5) {
    if (length > NAME_BYTES_MAX) throw malformed(`a nonce of at most ${NAME_BYTES_MAX} bytes`, wire.position);
    head.nonce = text;
  }
}

function faultOf(
  { versionBytes, count }: Head,
  bytes: number,
  { resourcesMax, messageBytesMax }: AnswerBounds,
): string | undefined {
  if (versionBytes > NAME_BYTES_MAX)
    return `expected a version of at most ${NAME_BYTES_MAX} bytes, got ${versionBytes}`;
  if (count > resourcesMax) return `expected at most ${resourcesMax} resources, got ${count}`;
  if (bytes > messageBytesMax)
    return `expected a set of at most ${messageBytesMax} bytes (XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES), got ${bytes}`;
  return undefined;
}

/**
 * The digest of resources, independent of their order, because servers send them in the random order of a map: the sum
 * of their hashes.
 */
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

function* readResource(wire: WireReader, bytes: Buffer): LongWork<WireResource> {
  let typeUrl = "";
  let value: Buffer = Buffer.alloc(0);
  for (let fields = 1; wire.position < wire.end; fields++) {
    if (fields % FIELDS_PER_STEP === 0) yield;
    const field = readField(wire);
    if (field === 0) continue;
    const end = wire.readEnd();
    if (field === 1) typeUrl = readName(wire, bytes, end);
    // A copy: a view would keep the whole message in memory, and the whole message would be cloned for the parser's
    // thread.
    else if (field === 2) value = Buffer.from(new Uint8Array(bytes.subarray(wire.position, end)).buffer);
    wire.position = end;
  }
  return { typeUrl, value };
}

/** Reads a tag. Returns the number of a field that holds bytes; 0 for another field, which is skipped. */
function readField(wire: WireReader): number {
  const tag = wire.readTag();
  if ((tag & 7) === WireType.bytes) return tag >>> 3;
  // A group may be as long as the answer, and would be read in one step.
  if ((tag & 7) === WireType.startGroup) throw malformed("no group", wire.position);
  wire.skip(tag);
  return 0;
}

function readName(wire: WireReader, bytes: Buffer, end: number): string {
  return bytes.toString("utf8", wire.position, Math.min(end, wire.position + NAME_BYTES_MAX));
}

/** What every request says of this program. */
interface RequestSender {
  readonly nodeId: string;
  readonly nodeMetadata: ReadonlyMap<string, string>;
  readonly programVersion: string;
}

/** A DiscoveryRequest, by the numbers of proto/envoy. */
export function requestBytes({ version, nonce, refusal }: StreamRequest, sender: RequestSender): Buffer {
  const writer = new WireWriter();
  if (version !== "") writer.writeTextField(1, version);
  const node = writer.openMessage(2);
  if (sender.nodeId !== "") writer.writeTextField(1, sender.nodeId);
  if (sender.nodeMetadata.size > 0) writeMetadata(sender.nodeMetadata, writer);
  writer.writeTextField(6, "headgate");
  writer.writeTextField(7, sender.programVersion);
  writer.closeMessage(node);
  writer.writeTextField(4, RATE_LIMIT_TYPE);
  if (nonce !== "") writer.writeTextField(5, nonce);
  if (refusal !== undefined) {
    const detail = writer.openMessage(6);
    writer.writeTextField(2, refusal.slice(0, REFUSAL_CHARS_MAX));
    writer.closeMessage(detail);
  }
  return Buffer.from(writer.view());
}

/** The node's google.protobuf.Struct, of texts. */
function writeMetadata(metadata: ReadonlyMap<string, string>, writer: WireWriter): void {
  const struct = writer.openMessage(3);
  for (const [key, value] of metadata) {
    const entry = writer.openMessage(1);
    writer.writeTextField(1, key);
    const held = writer.openMessage(2);
    writer.writeTextField(3, value);
    writer.closeMessage(held);
    writer.closeMessage(entry);
  }
  writer.closeMessage(struct);
}
