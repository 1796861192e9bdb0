// What the header fields of a request come to: a unary call that we answer ourselves, a stream for grpc-js, or a malformed request.
// Only streams that have a method go to grpc-js: it answers any other at once, and throws where nobody can catch it if
// the peer has reset the stream by then (test/integration/fast-lane-attacks.test.ts).

import type { UnaryMethod } from "../unary-call.ts";
import type { HeaderList } from "./hpack/header-list.ts";
import { NameId } from "./hpack/header-names.ts";
import type { Encoding } from "./unpacking.ts";

/** Where a request goes. */
export const Route = { unary: 0, handOver: 1, malformed: 2, unknownMethod: 3, notGrpc: 4 } as const;
export type Route = (typeof Route)[keyof typeof Route];

/** The units of a grpc-timeout: hours, minutes, seconds, and the three parts of a second. */
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

/** A request as its headers tell it; filled by `readHead`. */
export class RequestHead {
  route: Route = Route.malformed;
  /** Set if the route is `unary`. */
  method: UnaryMethod | undefined;
  /** As sent; one-byte text. */
  path = "";
  /** Microseconds from the arrival of the headers, or Infinity. */
  timeoutUs = Number.POSITIVE_INFINITY;
  /** Bytes of body announced, or -1. */
  contentLength = -1;
  /** How a message is packed that says it is; undefined if none may be. */
  encoding: Encoding | undefined;
  /** The caller's `traceparent`, as sent. */
  traceparent: string | undefined;
  /** While the fields are read: the first content-type, and whether nothing yet asks for grpc-js. */
  contentType: string | undefined;
  isPlain = true;

  /** As before the first field. */
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

/** What is served under which path. */
export interface KnownMethods {
  readonly methods: ReadonlyMap<string, UnaryMethod>;
  /** Paths that grpc-js has methods for. */
  readonly handedPaths: ReadonlySet<string>;
}

/**
 * Reads the fields of a request. Malformed is what RFC 9113, section 8, says is. A gRPC call that is not a plain one of
 * our own methods (packed in an unknown way, or with a deadline that can't be read) goes to grpc-js, which has an answer
 * to all of it.
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

/** False if it makes the request malformed. */
function readPseudo(pseudo: number, value: string, known: KnownMethods, head: RequestHead): boolean {
  if (pseudo === SEEN_METHOD) head.isPlain &&= value === "POST";
  if (pseudo !== SEEN_PATH) return true;
  head.path = value;
  head.method = known.methods.get(value);
  return value !== "";
}

/** False if it makes the request malformed. */
function readField(nameId: NameId, value: string, head: RequestHead): boolean {
  switch (nameId) {
    case NameId.contentType:
      // Of several the first counts, as in Node.
      head.contentType ??= value;
      return true;
    case NameId.te:
      return value === "trailers";
    case NameId.grpcTimeout:
      // Several are none, as in grpc-js, which joins them to one text.
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
      // Several are none, as W3C Trace Context says and as grpc-js has it, which joins them to one text.
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

/** Whether the fields after a body are ones: no pseudo-header, nothing of HTTP/1.1, no invalid name. */
export function areTrailersValid(list: HeaderList): boolean {
  for (let i = 0; i < list.count; i++) {
    const nameId = list.nameIds[i] as NameId;
    if (pseudoBit(nameId) !== 0) return false;
    if (nameId === NameId.foreignPseudo || nameId === NameId.connectionBound || nameId === NameId.invalid) return false;
  }
  return true;
}

/** Microseconds of a `grpc-timeout` such as `20m`, or NaN if it is none. By hand, because nearly every call has one. */
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

// Of a value that begins like one.
function isGrpcContent(value: string): boolean {
  const next = value[CONTENT_TYPE.length];
  return next === undefined || next === "+" || next === ";";
}
