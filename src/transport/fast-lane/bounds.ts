// Every bound of the fast lane in one place, and the counters of what went past them.

/** How much of everything one peer, or all together, may use. Past a bound the connection ends, unless said otherwise. */
export interface Bounds {
  /** Bytes that the fields of one header block may count for, decoded. */
  readonly headerListBytesMax: number;
  /** Bytes of one header block as sent, over all its frames. */
  readonly headerBlockBytesMax: number;
  /** Frames that one header block may be spread over. */
  readonly headerFramesMax: number;
  /** Streams per connection that grpc-js answers; more are refused. */
  readonly handedStreamsMax: number;
  /** Streams that may be open on all connections together; more are refused. */
  readonly streamsTotalMax: number;
  /** Bytes of unary requests that have not come whole yet, per connection; the call that passes it is refused. */
  readonly partialBytesMax: number;
  /** The same for all connections together. */
  readonly partialBytesTotalMax: number;
  /** Bytes of compressed messages, packed and unpacked, that are being unpacked on all connections together; calls beyond it are refused. */
  readonly unpackedBytesTotalMax: number;
  /** Bytes of output that the peer has not read, per connection. */
  readonly unreadBytesMax: number;
  /** The same for all connections together; the fullest connection ends. */
  readonly unreadBytesTotalMax: number;
  /** With more unread output than this, nothing more is read from the peer until it has caught up. */
  readonly unreadBytesPause: number;
  /** Within this time of connecting, TLS and preface have to be done. */
  readonly handshakeMs: number;
  /** Within this time a header block that has begun must end. */
  readonly headerBlockMs: number;
  /** Output must move within this time: written bytes, and answers that wait for a window; requests must come whole. */
  readonly stallMs: number;
  /** A ping must be answered within this time. */
  readonly keepaliveTimeoutMs: number;
  /** Connections at once; more are closed as they come. */
  readonly connectionsMax: number;
}

export const DEFAULT_BOUNDS: Bounds = {
  headerListBytesMax: 65_536,
  headerBlockBytesMax: 65_536,
  headerFramesMax: 32,
  handedStreamsMax: 128,
  streamsTotalMax: 262_144,
  partialBytesMax: 16_777_216,
  partialBytesTotalMax: 268_435_456,
  unpackedBytesTotalMax: 33_554_432,
  unreadBytesMax: 8_388_608,
  unreadBytesTotalMax: 268_435_456,
  unreadBytesPause: 1_048_576,
  handshakeMs: 10_000,
  headerBlockMs: 10_000,
  stallMs: 30_000,
  keepaliveTimeoutMs: 20_000,
  connectionsMax: 20_000,
};

/** What can end a connection, or refuse part of it; each is a counter. */
export const TROUBLES = [
  "reset_flood",
  "ping_flood",
  "settings_flood",
  "frame_flood",
  "stream_flood",
  "header_flood",
  "headers_too_large",
  "header_timeout",
  "handshake_timeout",
  "bad_preface",
  "tls_failed",
  "protocol_error",
  "unread_output",
  "unread_output_total",
  "stalled",
  "partial_requests",
  "packed_requests",
  "keepalive_timeout",
  "too_many_connections",
] as const;
export type Trouble = (typeof TROUBLES)[number];

/** Counters of the fast lane; they only grow. */
export class LaneCounts {
  readonly troubles: Record<Trouble, number> = Object.fromEntries(TROUBLES.map((name) => [name, 0])) as Record<
    Trouble,
    number
  >;
  connections = 0;
  unaryCalls = 0;
  handedStreams = 0;
  headerBlocksRemembered = 0;
  headerBlocksDecoded = 0;
}
