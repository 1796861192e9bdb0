// Every bound of the fast lane in one place, and the counters of what went past them.

/**
 * How much one peer, or all peers together, may use. Each bound says why its default has that size, what happens beyond it, and
 * what grpc-js (on node:http2) and Envoy have in its place. "Ends" means that the connection ends and its counter moves.
 */
export interface Bounds {
  /**
   * Bytes of the decoded fields of one header block, 32 for each field included (RFC 9113). The fields of a call come to some 300
   * bytes; cookies and tokens that a mesh passes on, to thousands. Beyond it the connection ends: the rest of the block can't be
   * left out, because the table of the connection depends on it. node:http2: 65,535; Envoy: 60 KiB (max_request_headers_kb).
   */
  readonly headerListBytesMax: number;
  /**
   * Bytes of one header block as sent, over all its frames: as many as it may have decoded, because coding makes no block longer.
   * Beyond it the connection ends. node:http2 and Envoy bound the decoded fields alone.
   */
  readonly headerBlockBytesMax: number;
  /**
   * Frames of one header block. 64 KiB fill four; peers that cut blocks smaller get eight times as many. Beyond it the connection
   * ends. nghttp2, behind node:http2: 8 CONTINUATION frames; Envoy leaves it to its codec.
   */
  readonly headerFramesMax: number;
  /**
   * Streams per connection that grpc-js answers. A client has one health Watch open, a tool one reflection. Beyond it a stream gets
   * REFUSED_STREAM. grpc-js: all streams that the connection may open; Envoy: max_concurrent_streams.
   */
  readonly handedStreamsMax: number;
  /**
   * Streams of all connections that grpc-js answers. Each takes some 100 KB with its session, and up to three windows of 64 KiB:
   * some 220 MB in all. Beyond it the address with the most streams loses one (RESOURCE_EXHAUSTED), on the connection that has the
   * most; an address that has the most itself is refused (fair-hand-over.ts). grpc-js: none; Envoy: none.
   */
  readonly handedStreamsTotalMax: number;
  /**
   * Bytes of the header fields of a stream for grpc-js: the hard limit that gRPC libraries have for metadata. Beyond it the stream
   * gets RESOURCE_EXHAUSTED. grpc-js: node:http2's 65,535; Envoy: 60 KiB.
   */
  readonly handedHeaderBytesMax: number;
  /**
   * Streams open on all connections. Each takes some hundred bytes: 64 connections with as many as each may have. Beyond it a stream
   * gets REFUSED_STREAM. grpc-js: none; Envoy: max_concurrent_streams, per connection alone.
   */
  readonly streamsTotalMax: number;
  /**
   * Bytes per connection of unary requests that have not come whole. Room for four of the longest (4 MiB). Beyond it the call whose
   * bytes came gets RESOURCE_EXHAUSTED. grpc-js: one message per stream; Envoy: 1 MiB (per_connection_buffer_limit_bytes).
   */
  readonly partialBytesMax: number;
  /**
   * Bytes of such requests on all connections: sixteen connections at their bound. Beyond it the call whose bytes came gets
   * RESOURCE_EXHAUSTED. grpc-js: none; Envoy: its overload manager, if configured.
   */
  readonly partialBytesTotalMax: number;
  /**
   * Bytes of compressed messages on all connections, packed and unpacked, that are being unpacked. Room for eight of the longest,
   * or hundreds of the usual ones. Beyond it a call gets RESOURCE_EXHAUSTED. grpc-js: none, which is why calls that it answers may
   * not be compressed (no-compression.ts); Envoy unpacks only where a filter says so.
   */
  readonly unpackedBytesTotalMax: number;
  /**
   * Bytes of output per connection that the peer has not read: a hundred thousand answers. Beyond it the connection ends. grpc-js:
   * none; Envoy stops to read at 1 MiB.
   */
  readonly unreadBytesMax: number;
  /**
   * Bytes of unread output on all connections: 32 of them at their bound. Beyond it the connection with the most of it ends.
   * grpc-js: none; Envoy: its overload manager, if configured.
   */
  readonly unreadBytesTotalMax: number;
  /**
   * Bytes of unread output from which nothing more is read from the peer, until half of it has gone. Ten thousand answers: more than
   * any caller has under way. Envoy: 1 MiB, too (per_connection_buffer_limit_bytes); node:http2: windows alone.
   */
  readonly unreadBytesPause: number;
  /**
   * Time from the accepted socket to the end of TLS and preface: a few round trips, and a busy machine at either end. Beyond it the socket is
   * closed. Node: 120 s for TLS, none for the preface; Envoy: none by default.
   */
  readonly handshakeMs: number;
  /**
   * Time within which a frame or header block that has begun must end: both are in the sender's hands as a whole. Beyond it the
   * connection ends. node:http2: none; Envoy: stream_idle_timeout, 5 min.
   */
  readonly headerBlockMs: number;
  /**
   * Time within which output must move (bytes for the socket, and answers that wait for a window), and within which requests must
   * come whole. Networks lose packets for seconds, not for this long. Beyond it the connection ends, or the call that is not whole.
   * grpc-js: none; Envoy: stream_idle_timeout, 5 min.
   */
  readonly stallMs: number;
  /** Time within which a ping must be answered. Beyond it the connection ends. gRPC's own default, grpc-js has it; Envoy: as configured. */
  readonly keepaliveTimeoutMs: number;
  /**
   * Connections at once: some 10 KB each while they idle, 200 MB in all. Beyond it a socket is closed as it comes. grpc-js: none;
   * Envoy: its overload manager, if configured.
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

/** What a peer may do that ends its connection, or that has a stream refused. Each is a counter. */
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
