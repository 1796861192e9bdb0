// Decides by its header fields what a request is: a unary call for us, a stream for grpc-js, or malformed. grpc-js gets only streams of
// methods that it has: it answers all others at once, and if the peer has reset such a stream by then, it throws where nobody can catch
// it (test/integration/fast-lane-attacks.test.ts).

import type { UnaryMethod } from "../unary-call.ts";
import type { HeaderList } from "./hpack/header-list.ts";
import { NameId } from "./hpack/header-names.ts";
import type { Encoding } from "./unpacking.ts";

/** What becomes of a request. */
export const Route = { unary: 0, handOver: 1, malformed: 2, unknownMethod: 3, notGrpc: 4 } as const;
export type Route = (typeof Route)[keyof typeof Route];

/** Microseconds of the units of a grpc-timeout. */
const MICROS_OF_UNIT: Readonly<Record<string, number>> = {
  H: 3_600_000_000,
  M: 60_000_000,
  S: 1_000_000,
  m: 1_000,
  u: 1,
  n: 0.001,
};
const TIMEOUT_DIGITS_MAX = 8;
const CONTENT_TYPE = "application/grpc";

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
  /** How a compressed message is encoded; undefined if none may be compressed. */
  encoding: Encoding | undefined;
  /** The caller's `traceparent`, as sent. */
  traceparent: string | undefined;
  /** Used while fields are read: the first content-type, and false once a field asks for grpc-js. */
  contentType: string | undefined;
  isPlain = true;

  /** Resets everything but `path`, which every valid request sets. */
  clear(): void {
    this.route = Route.malformed;
    this.method = undefined;
    this.timeoutUs = Number.POSITIVE_INFINITY;
    this.contentLength = -1;
    this.encoding = undefined;
    this.traceparent = undefined;
    this.contentType = undefined;
    this.isPlain = true;
  }

  copyFrom(other: RequestHead): void {
    this.route = other.route;
    this.method = other.method;
    this.path = other.path;
    this.timeoutUs = other.timeoutUs;
    this.contentLength = other.contentLength;
    this.encoding = other.encoding;
    this.traceparent = other.traceparent;
  }
}

const SEEN_METHOD = 1;
const SEEN_SCHEME = 2;
const SEEN_PATH = 4;
const SEEN_AUTHORITY = 8;
const SEEN_NEEDED = SEEN_METHOD | SEEN_SCHEME | SEEN_PATH;

/** The methods that are served, by path. */
export interface KnownMethods {
  readonly methods: ReadonlyMap<string, UnaryMethod>;
  /** Paths of methods that grpc-js serves. */
  readonly handedPaths: ReadonlySet<string>;
}

/**
 * Reads the fields of a request into `head`. RFC 9113, section 8, says what is malformed. A gRPC call of our own methods that is not
 * plain (with an unknown encoding, or an invalid timeout) goes to grpc-js, which has an answer to all of them.
 */
export function readHead(list: HeaderList, known: KnownMethods, head: RequestHead): void {
  head.clear();
  let seen = 0;
  let hasFields = false;
  for (let i = 0; i < list.count; i++) {
    const nameId = list.nameIds[i] as NameId;
    const value = list.values[i] as string;
    const pseudo = pseudoBit(nameId);
    if (pseudo === 0) {
      hasFields = true;
      if (!readField(nameId, value, head)) return;
    } else {
      if (hasFields || (seen & pseudo) !== 0 || !readPseudo(pseudo, value, known, head)) return;
      seen |= pseudo;
    }
  }
  if ((seen & SEEN_NEEDED) === SEEN_NEEDED) head.route = routeOf(head, known);
}

/** False if the field makes the request malformed. */
function readPseudo(pseudo: number, value: string, known: KnownMethods, head: RequestHead): boolean {
  if (pseudo === SEEN_METHOD) head.isPlain &&= value === "POST";
  if (pseudo !== SEEN_PATH) return true;
  head.path = value;
  head.method = known.methods.get(value);
  return value !== "";
}

/** False if the field makes the request malformed. */
function readField(nameId: NameId, value: string, head: RequestHead): boolean {
  switch (nameId) {
    case NameId.contentType:
      // Of several the first one counts, as in Node.
      head.contentType ??= value;
      return true;
    case NameId.te:
      return value === "trailers";
    case NameId.grpcTimeout:
      // Several count as invalid, as in grpc-js, which joins them to one text.
      head.timeoutUs = head.timeoutUs === Number.POSITIVE_INFINITY ? readTimeoutUs(value) : Number.NaN;
      return true;
    case NameId.grpcEncoding:
      if (value === "identity") return true;
      head.isPlain &&= head.encoding === undefined && (value === "gzip" || value === "deflate");
      head.encoding = value as Encoding;
      return true;
    case NameId.contentLength: {
      const length = readLength(value);
      if (head.contentLength >= 0 && length !== head.contentLength) return false;
      head.contentLength = length;
      return !Number.isNaN(length);
    }
    case NameId.traceparent:
      // Several count as none, as W3C Trace Context says. grpc-js has the same result, because it joins them to one text.
      head.traceparent = head.traceparent === undefined ? value : "";
      return true;
    case NameId.connectionBound:
    case NameId.foreignPseudo:
    case NameId.invalid:
      return false;
    default:
      return true;
  }
}

function routeOf({ contentType, isPlain, method, path, timeoutUs }: RequestHead, known: KnownMethods): Route {
  if (contentType?.startsWith(CONTENT_TYPE) !== true) return Route.notGrpc;
  if (isPlain && method !== undefined && !Number.isNaN(timeoutUs) && isGrpcContent(contentType)) return Route.unary;
  return known.handedPaths.has(path) ? Route.handOver : Route.unknownMethod;
}

function pseudoBit(nameId: NameId): number {
  switch (nameId) {
    case NameId.method:
      return SEEN_METHOD;
    case NameId.scheme:
      return SEEN_SCHEME;
    case NameId.path:
      return SEEN_PATH;
    case NameId.authority:
      return SEEN_AUTHORITY;
    default:
      return 0;
  }
}

/** Whether the trailers of a request are valid: no pseudo-header, no field of HTTP/1.1, no invalid name. */
export function areTrailersValid(list: HeaderList): boolean {
  for (let i = 0; i < list.count; i++) {
    const nameId = list.nameIds[i] as NameId;
    if (pseudoBit(nameId) !== 0) return false;
    if (nameId === NameId.foreignPseudo || nameId === NameId.connectionBound || nameId === NameId.invalid) return false;
  }
  return true;
}

/** Microseconds of a `grpc-timeout` such as `20m`, or NaN if it is invalid. Parsed by hand, because nearly every call has one. */
export function readTimeoutUs(value: string): number {
  const digits = value.length - 1;
  if (digits < 1 || digits > TIMEOUT_DIGITS_MAX) return Number.NaN;
  let amount = 0;
  for (let i = 0; i < digits; i++) {
    const digit = value.charCodeAt(i) - 0x30;
    if (digit < 0 || digit > 9) return Number.NaN;
    amount = amount * 10 + digit;
  }
  return amount * (MICROS_OF_UNIT[value[digits] as string] ?? Number.NaN);
}

function readLength(value: string): number {
  return /^\d{1,15}$/.test(value) ? Number(value) : Number.NaN;
}

// Checks the character after CONTENT_TYPE; the caller has checked the beginning.
function isGrpcContent(value: string): boolean {
  const next = value[CONTENT_TYPE.length];
  return next === undefined || next === "+" || next === ";";
}
