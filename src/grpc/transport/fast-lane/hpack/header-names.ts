// The header names that the fast lane knows, as small numbers, so that reading a request compares no text.

/** The meaning of a name; `other` passes through. */
export const NameId = {
  other: 0,
  method: 1,
  scheme: 2,
  path: 3,
  authority: 4,
  contentType: 5,
  te: 6,
  grpcTimeout: 7,
  grpcEncoding: 8,
  contentLength: 9,
  /** A pseudo-header that no request has. */
  foreignPseudo: 10,
  /** A field that belongs to an HTTP/1.1 connection. */
  connectionBound: 11,
  /** A name with an upper case letter, or with a character that no name may have. */
  invalid: 12,
  host: 13,
  /** The trace that a call belongs to (W3C Trace Context). */
  traceparent: 14,
} as const;
export type NameId = (typeof NameId)[keyof typeof NameId];

const KNOWN: ReadonlyMap<string, NameId> = new Map<string, NameId>([
  [":method", NameId.method],
  [":scheme", NameId.scheme],
  [":path", NameId.path],
  [":authority", NameId.authority],
  ["content-type", NameId.contentType],
  ["te", NameId.te],
  ["grpc-timeout", NameId.grpcTimeout],
  ["grpc-encoding", NameId.grpcEncoding],
  ["content-length", NameId.contentLength],
  ["connection", NameId.connectionBound],
  ["keep-alive", NameId.connectionBound],
  ["proxy-connection", NameId.connectionBound],
  ["transfer-encoding", NameId.connectionBound],
  ["upgrade", NameId.connectionBound],
  ["host", NameId.host],
  ["traceparent", NameId.traceparent],
]);

const isNameChar = new Uint8Array(256);
for (const char of "abcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+-.^_`|~") isNameChar[char.charCodeAt(0)] = 1;

/** The meaning of `name`, which is one-byte text. */
export function nameIdOf(name: string): NameId {
  const known = KNOWN.get(name);
  if (known !== undefined) return known;
  if (name.charCodeAt(0) === 0x3a) return NameId.foreignPseudo;
  for (let i = 0; i < name.length; i++) if (isNameChar[name.charCodeAt(i)] !== 1) return NameId.invalid;
  return name === "" ? NameId.invalid : NameId.other;
}
