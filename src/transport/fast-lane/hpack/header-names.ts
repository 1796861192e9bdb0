// Names of header fields that the fast lane has to know, as small numbers: reading a request compares no text.

/** What a name means to us; `other` passes through. */
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
  /** A pseudo-header that requests don't have. */
  foreignPseudo: 10,
  /** A field that belongs to a connection of HTTP/1.1. */
  connectionBound: 11,
  /** A name with an upper case letter or a character that no name has. */
  invalid: 12,
  /** Metadata that only this process may set. */
  reserved: 13,
  /** Whose trace a call belongs to (W3C Trace Context). */
  traceparent: 14,
} as const;
export type NameId = (typeof NameId)[keyof typeof NameId];

/** Metadata that tells grpc-js who sent a stream that the fast lane handed over. Taken out of what clients send. */
export const PEER_ADDRESS_NAME = "x-headgate-peer-address";
/** The subject of the client certificate, if one was verified. Taken out of what clients send. */
export const PEER_CERTIFICATE_NAME = "x-headgate-peer-certificate";

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
  ["traceparent", NameId.traceparent],
  [PEER_ADDRESS_NAME, NameId.reserved],
  [PEER_CERTIFICATE_NAME, NameId.reserved],
]);

const isNameChar = new Uint8Array(256);
for (const char of "abcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+-.^_`|~") isNameChar[char.charCodeAt(0)] = 1;

/** What `name`, one-byte text, means to us. */
export function nameIdOf(name: string): NameId {
  const known = KNOWN.get(name);
  if (known !== undefined) return known;
  if (name.charCodeAt(0) === 0x3a) return NameId.foreignPseudo;
  for (let i = 0; i < name.length; i++) if (isNameChar[name.charCodeAt(i)] !== 1) return NameId.invalid;
  return name === "" ? NameId.invalid : NameId.other;
}
