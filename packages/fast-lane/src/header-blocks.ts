// What the header blocks of requests mean: a call on bytes, another call that we serve, or why it is refused. Most come
// again, so they are remembered. And the blocks of answers, which are made once and kept.

import { GRPC_CONTENT, isGrpcContent, percentEncoded, readTimeoutUs, TAKEN_ENCODING } from "./grpc-headers.ts";
import { HpackEncoder } from "./hpack/encoder.ts";
import type { HeaderList } from "./hpack/header-list.ts";
import { NameId } from "./hpack/header-names.ts";
import type { StreamMethod, UnaryMethod } from "./methods.ts";

/** Blocks remembered, some 7 MB in all; a power of two. */
const REMEMBERED_BLOCKS_MAX = 4_096;
/** Longer blocks are always decoded. */
export const REMEMBERED_BLOCK_BYTES_MAX = 512;

interface Slot {
  readonly bytes: Buffer;
  readonly generation: number;
  readonly head: RequestHead;
}

/**
 * Remembers decoded blocks of all connections by their bytes and their table's generation: most clients send the same
 * block with every call. A block qualifies if decoding it leaves the header table unchanged, and is valid as long as
 * the table stays unchanged. A block's hash gives its slot; a new block replaces the old one there.
 */
export class HeaderMemory {
  readonly #slots: (Slot | undefined)[] = new Array(REMEMBERED_BLOCKS_MAX);
  // By slot, the hash that was looked up last: a block is worth keeping when it comes a second time.
  readonly #lastAsked = new Int32Array(REMEMBERED_BLOCKS_MAX);
  // The slot of the block that was not found.
  #at = 0;
  #isAgain = false;

  /** The decoded head of the block, as of the header table at `generation`; undefined if it is not remembered. */
  find(block: Buffer, start: number, end: number, generation: number): RequestHead | undefined {
    const length = end - start;
    if (length > REMEMBERED_BLOCK_BYTES_MAX) {
      this.#isAgain = false;
      return undefined;
    }
    let hash = length ^ Math.imul(generation, 0x9e37_79b1);
    for (let i = start; i < end; i++) hash = (Math.imul(hash, 31) + (block[i] as number)) | 0;
    const at = (hash ^ (hash >>> 11)) & (REMEMBERED_BLOCKS_MAX - 1);
    const slot = this.#slots[at];
    if (slot !== undefined && slot.generation === generation && isSame(slot.bytes, block, start, length)) {
      return slot.head;
    }
    this.#at = at;
    this.#isAgain = this.#lastAsked[at] === hash;
    this.#lastAsked[at] = hash;
    return undefined;
  }

  /**
   * Remembers the head of the block that `find` has just not found, if the block came before. True if the head is kept
   * and must not change.
   */
  remember(block: Buffer, start: number, end: number, generation: number, head: RequestHead): boolean {
    if (!this.#isAgain) return false;
    // Not from Node's pool: a slice keeps all 8 KB of it, which nothing would count.
    const bytes = Buffer.allocUnsafeSlow(end - start);
    block.copy(bytes, 0, start, end);
    head.contentType = undefined;
    head.encoding = undefined;
    this.#slots[this.#at] = { bytes, generation, head };
    return true;
  }
}

function isSame(bytes: Buffer, block: Buffer, start: number, length: number): boolean {
  if (bytes.length !== length) return false;
  for (let i = 0; i < length; i++) if (bytes[i] !== block[start + i]) return false;
  return true;
}

/** What becomes of a request. */
export const Route = {
  unary: 0,
  streamed: 1,
  malformed: 2,
  unknownMethod: 3,
  notGrpc: 4,
  badTimeout: 5,
  compressed: 6,
} as const;
export type Route = (typeof Route)[keyof typeof Route];

const SLASH = 0x2f;
/**
 * The present version has 55; a later one may have more. A longer one is ignored, because each waiting call keeps
 * its own.
 */
const TRACEPARENT_CHARS_MAX = 256;

/** What the headers of a request say; filled by `readHead`. */
export class RequestHead {
  route: Route = Route.malformed;
  /** Set if the route is `unary`. */
  method: UnaryMethod | undefined;
  /** As sent, in one-byte text. */
  path = "";
  /** Microseconds from the arrival of the headers, Infinity without a timeout, NaN for an invalid one. */
  timeoutUs = Number.POSITIVE_INFINITY;
  /** Bytes of the announced body, or -1. */
  contentLength = -1;
  /** The caller's `traceparent`, as sent. */
  traceparent: string | undefined;
  /** Used while fields are read: the first content-type, the only encoding, and whether the method is POST. */
  contentType: string | undefined;
  encoding: string | undefined;
  isPost = false;

  /** Resets everything but `path`, which every valid request sets. */
  clear(): void {
    this.route = Route.malformed;
    this.method = undefined;
    this.timeoutUs = Number.POSITIVE_INFINITY;
    this.contentLength = -1;
    this.traceparent = undefined;
    this.contentType = undefined;
    this.encoding = undefined;
    this.isPost = false;
  }
}

/** Of `:authority` and `host` one is enough. */
const NEEDED = NameId.method | NameId.scheme | NameId.path | NameId.authority;

/** The methods that are served, by path. */
export interface KnownMethods {
  readonly methods: ReadonlyMap<string, UnaryMethod>;
  readonly others: ReadonlyMap<string, StreamMethod>;
}

/**
 * Reads the fields of a request into `head`. RFC 9113, section 8, says what is malformed. Values that nothing reads are
 * not checked.
 */
export function readHead(list: HeaderList, known: KnownMethods, head: RequestHead): void {
  head.clear();
  let seen = 0;
  let hasFields = false;
  for (let i = 0; i < list.count; i++) {
    const nameId = list.nameIds[i] as NameId;
    const value = list.values[i] as string;
    if (isPseudo(nameId)) {
      if (hasFields || (seen & nameId) !== 0 || !readPseudo(nameId, value, known, head)) return;
      seen |= nameId;
    } else {
      hasFields = true;
      if (!readField(nameId, value, head)) return;
      if (nameId !== NameId.host) continue;
      if ((seen & NameId.host) !== 0) return;
      seen |= NameId.host | NameId.authority;
    }
  }
  if ((seen & NEEDED) === NEEDED) head.route = routeOf(head, known);
}

function isPseudo(nameId: NameId): boolean {
  return nameId !== NameId.other && nameId <= NameId.authority;
}

/** False if the field makes the request malformed. */
function readPseudo(nameId: NameId, value: string, known: KnownMethods, head: RequestHead): boolean {
  switch (nameId) {
    case NameId.method:
      head.isPost = value === "POST";
      // CONNECT has neither scheme nor path.
      return value !== "" && value !== "CONNECT";
    case NameId.scheme:
    case NameId.authority:
      return value !== "";
    default:
      head.path = value;
      head.method = known.methods.get(value);
      return value.charCodeAt(0) === SLASH;
  }
}

/** False if the field makes the request malformed. */
function readField(nameId: NameId, value: string, head: RequestHead): boolean {
  switch (nameId) {
    case NameId.contentType:
      // Of several the first one counts, as in Node.
      head.contentType ??= value;
      return true;
    case NameId.te:
      return value === "trailers" || value.toLowerCase() === "trailers";
    case NameId.grpcTimeout:
      // Several count as invalid, as in grpc-js, which joins them to one text.
      head.timeoutUs = head.timeoutUs === Number.POSITIVE_INFINITY ? readTimeoutUs(value) : Number.NaN;
      return true;
    case NameId.grpcEncoding:
      // Several count as one that nobody knows, as in grpc-js, which joins them to one text.
      head.encoding = head.encoding === undefined ? value : "";
      return true;
    case NameId.contentLength:
      if (head.contentLength >= 0) return false;
      head.contentLength = readLength(value);
      return !Number.isNaN(head.contentLength);
    case NameId.host:
      return value !== "";
    case NameId.traceparent:
      // Several are ignored, as W3C Trace Context says. grpc-js has the same result, because it joins them to one
      // text.
      head.traceparent = head.traceparent === undefined && value.length <= TRACEPARENT_CHARS_MAX ? value : "";
      return true;
    case NameId.refused:
      return false;
    default:
      return true;
  }
}

function routeOf(head: RequestHead, known: KnownMethods): Route {
  const { contentType, encoding, method } = head;
  if (!head.isPost || contentType === undefined || !isGrpcContent(contentType)) return Route.notGrpc;
  if (Number.isNaN(head.timeoutUs)) return Route.badTimeout;
  if (method === undefined && !known.others.has(head.path)) return Route.unknownMethod;
  if (encoding !== undefined && encoding !== TAKEN_ENCODING) return Route.compressed;
  return method === undefined ? Route.streamed : Route.unary;
}

/** Whether the trailers of a request are valid: no pseudo-header, no length, no name that is refused. */
export function areTrailersValid(list: HeaderList): boolean {
  for (let i = 0; i < list.count; i++) {
    const nameId = list.nameIds[i] as NameId;
    if (isPseudo(nameId) || nameId === NameId.contentLength || nameId === NameId.refused) return false;
  }
  return true;
}

function readLength(value: string): number {
  return /^\d{1,15}$/.test(value) ? Number(value) : Number.NaN;
}

type Field = readonly [name: string, value: string];
const GOOD_HEAD: readonly Field[] = [
  [":status", "200"],
  ["content-type", GRPC_CONTENT],
];
const GOOD_END: readonly Field[] = [["grpc-status", "0"]];

/** Makes blocks with the encoder of one connection. Each block must be written out before the next one is made. */
export class ResponseBlocks {
  readonly encoder = new HpackEncoder();
  // Blocks that are sent again and again, of the encoder's generation `#generation`.
  #head: Buffer | undefined;
  #okTrailers: Buffer | undefined;
  #generation = -1;

  /** The headers before a message. */
  head(): Buffer {
    this.#forgetOld();
    if (this.#head !== undefined) return this.#head;
    const block = this.#encode(GOOD_HEAD);
    if (this.encoder.isRepeatable) this.#head = Buffer.from(block);
    return this.#head ?? block;
  }

  /** The trailers after a message, with status OK. At most OK_TRAILERS_BYTES_MAX bytes. */
  okTrailers(): Buffer {
    this.#forgetOld();
    if (this.#okTrailers !== undefined) return this.#okTrailers;
    const block = this.#encode(GOOD_END);
    if (this.encoder.isRepeatable) this.#okTrailers = Buffer.from(block);
    return this.#okTrailers ?? block;
  }

  /** The last block of a call that failed: its trailers, and its headers too unless they were sent. */
  failure(status: number, message: string, hasHead: boolean, acceptEncoding = ""): Buffer {
    const fields: Field[] = hasHead ? [] : [...GOOD_HEAD];
    if (acceptEncoding !== "") fields.push(["grpc-accept-encoding", acceptEncoding]);
    fields.push(["grpc-status", String(status)]);
    if (message !== "") fields.push(["grpc-message", percentEncoded(message)]);
    return this.#encode(fields);
  }

  /** The headers of an answer to a request that is not gRPC. */
  notGrpc(): Buffer {
    return this.#encode([
      [":status", "415"],
      ["content-type", "text/plain"],
    ]);
  }

  #encode(fields: readonly Field[]): Buffer {
    this.encoder.begin();
    for (const [name, value] of fields) this.encoder.field(name, value);
    return this.encoder.end();
  }

  // Blocks of another generation are invalid.
  #forgetOld(): void {
    if (this.#generation === this.encoder.generation) return;
    this.#generation = this.encoder.generation;
    this.#head = undefined;
    this.#okTrailers = undefined;
  }
}

/** Most bytes of the trailers of a good answer, with a change of the table's size. */
export const OK_TRAILERS_BYTES_MAX = 64;
