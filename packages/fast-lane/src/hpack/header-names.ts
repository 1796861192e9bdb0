// The header names that the fast lane knows, as small numbers, so that reading a request compares no text.

/** The meaning of a name; `other` passes through. */
export const NameId = {
  other: 0,
  // Bits: pseudo-headers up to `authority`, and what may replace it.
  method: 1,
  scheme: 2,
  path: 4,
  authority: 8,
  host: 16,
  // Numbers.
  contentType: 17,
  te: 18,
  grpcTimeout: 19,
  grpcEncoding: 20,
  contentLength: 21,
  /** The trace that a call belongs to (W3C Trace Context). */
  traceparent: 22,
  /**
   * No request may have it: another pseudo-header, a field of an HTTP/1.1 connection, or a name with characters that no
   * name may have.
   */
  refused: 23,
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
  ["connection", NameId.refused],
  ["keep-alive", NameId.refused],
  ["proxy-connection", NameId.refused],
  ["transfer-encoding", NameId.refused],
  ["upgrade", NameId.refused],
  ["host", NameId.host],
  ["traceparent", NameId.traceparent],
]);

const isNameChar = new Uint8Array(256);
for (const char of "abcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+-.^_`|~") isNameChar[char.charCodeAt(0)] = 1;

/** The meaning of `name`, which is one-byte text. */
export function nameIdOf(name: string): NameId {
  const known = KNOWN.get(name);
  if (known !== undefined) return known;
  // The colon of a pseudo-header is no such character either.
  for (let i = 0; i < name.length; i++) if (isNameChar[name.charCodeAt(i)] !== 1) return NameId.refused;
  return name === "" ? NameId.refused : NameId.other;
}
