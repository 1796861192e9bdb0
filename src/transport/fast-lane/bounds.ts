// Every bound of the fast lane in one place, and the counters of what went past them.

/**
 * How much of everything one peer, or all together, may use. Past a bound the connection ends, unless said otherwise. Each says
 * why it is as it is by default, and what grpc-js (on node:http2) and Envoy have in its place.
 */
export interface Bounds {
  /**
   * Bytes that the fields of one header block may count for, decoded. A call has some 300; cookies and tokens that a mesh
   * passes on, thousands. node:http2: 65,535; Envoy: 60 KiB (max_request_headers_kb).
   */
  readonly headerListBytesMax: number;
  /** Bytes of one header block as sent, over all its frames: no more than decoded. */
  readonly headerBlockBytesMax: number;
  /** Frames that one header block may be spread over; 64 KiB need four. nghttp2 behind node:http2: 8 CONTINUATIONs. */
  readonly headerFramesMax: number;
  /** Streams per connection that grpc-js answers; more are refused. A client has one watch, a tool one of reflection. */
  readonly handedStreamsMax: number;
  /**
   * The same for all connections together; the address with most of them loses one (RESOURCE_EXHAUSTED), of several connections
   * the one with most, or the newcomer is refused. Each holds some 100 KB with its session, and up to three windows of 64 KiB. grpc-js: none; Envoy: none.
   */
  readonly handedStreamsTotalMax: number;
  /** Bytes that the header fields of such a stream may count for; it is turned away. gRPC's own hard limit. */
  readonly handedHeaderBytesMax: number;
  /** Streams that may be open on all connections together; more are refused. Some hundred bytes each. grpc-js: none. */
  readonly streamsTotalMax: number;
  /**
   * Bytes of unary requests that have not come whole yet, per connection; the call that passes it is refused. Four of the
   * longest. grpc-js: a message per stream; Envoy: 1 MiB (per_connection_buffer_limit_bytes).
   */
  readonly partialBytesMax: number;
  /** The same for all connections together. grpc-js: none; Envoy: its overload manager, if configured. */
  readonly partialBytesTotalMax: number;
  /**
   * Bytes of compressed messages, packed and unpacked, that are being unpacked on all connections together; calls beyond it
   * are refused. Eight of the longest, hundreds of the usual ones. grpc-js: none, so it unpacks nothing here.
   */
  readonly unpackedBytesTotalMax: number;
  /** Bytes of output that the peer has not read, per connection. A hundred thousand answers. grpc-js: none. */
  readonly unreadBytesMax: number;
  /** The same for all connections together; the fullest connection ends. */
  readonly unreadBytesTotalMax: number;
  /** With more unread output than this, nothing more is read from the peer until it has caught up. Envoy: 1 MiB, too. */
  readonly unreadBytesPause: number;
  /** Within this time of connecting, TLS and preface have to be done. Node: 120 s for TLS; Envoy: none by default. */
  readonly handshakeMs: number;
  /** Within this time a header block that has begun must end. Envoy: stream_idle_timeout, 5 min. */
  readonly headerBlockMs: number;
  /**
   * Output must move within this time: written bytes, and answers that wait for a window; requests must come whole. More
   * than networks lose packets for. Envoy: stream_idle_timeout, 5 min; grpc-js: none.
   */
  readonly stallMs: number;
  /** A ping must be answered within this time, as gRPC has it by default. */
  readonly keepaliveTimeoutMs: number;
  /**
   * Connections at once; more are closed as they come. Some 10 KB each while they idle. grpc-js: none; Envoy: its overload
   * manager, if configured.
   */
  readonly connectionsMax: number;
}

export const DEFAULT_BOUNDS: Bounds = {
  headerListBytesMax: 65_536,
  headerBlockBytesMax: 65_536,
  headerFramesMax: 32,
  handedStreamsMax: 32,
  handedStreamsTotalMax: 768,
  handedHeaderBytesMax: 16_384,
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
const TROUBLES = [
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
  "handed_streams",
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
