// All bounds of the fast lane, and the counters of what exceeded them.

/**
 * How much one peer, or all peers together, may use. Each bound says why its default has that size, what happens beyond it, and what
 * grpc-js (on node:http2) and Envoy have in its place. "Ends" means that the connection ends and the bound's counter grows.
 */
export interface Bounds {
  /**
   * Bytes of the decoded fields of one header block, plus 32 for each field (RFC 9113). A call's fields take some 300 bytes; with the
   * cookies and tokens that a mesh passes on, thousands. Beyond it the connection ends: the rest of the block can't be skipped, because
   * it may change the connection's header table. node:http2: 65,535; Envoy: 60 KiB (max_request_headers_kb).
   */
  readonly headerListBytesMax: number;
  /**
   * Bytes of one header block as sent, over all its frames: as many as the decoded fields may have, because coding makes no block longer.
   * Beyond it the connection ends. node:http2 and Envoy bound only the decoded fields.
   */
  readonly headerBlockBytesMax: number;
  /**
   * Frames of one header block. 64 KiB fill four frames; eight times as many allow for peers that send smaller ones. Beyond it the
   * connection ends. nghttp2, behind node:http2: 8 CONTINUATION frames; Envoy leaves it to its codec.
   */
  readonly headerFramesMax: number;
  /**
   * Streams of all connections that wait for their peer: for the rest of a request, for a window for the answer, or in a call of health
   * or reflection for whatever comes. Some hundred bytes each, 2 KB in such a call. Beyond it every connection with more than its share (half of the bound, divided by the connections) loses its oldest ones
   * above the share, until it passes the bound on resets. So a peer with one such stream never loses it. Must be at least twice
   * `connectionsMax`. grpc-js: grpc-js-streams.ts; Envoy: max_concurrent_streams, per connection only.
   */
  readonly waitingStreamsMax: number;
  /**
   * Bytes per connection of requests that are not whole or not handled, and of answers of health and reflection that the peer does not
   * read. Room for four of the longest requests (4 MiB). Beyond it the call that needed the last bytes gets RESOURCE_EXHAUSTED. grpc-js: one message per stream; Envoy: 1 MiB
   * (per_connection_buffer_limit_bytes).
   */
  readonly partialBytesMax: number;
  /**
   * The same on all connections: sixteen connections at their bound. Beyond it the call that needed the last bytes gets RESOURCE_EXHAUSTED. grpc-js: none; Envoy: its overload manager, if configured.
   */
  readonly partialBytesTotalMax: number;
  /**
   * Bytes, compressed and decompressed, of all messages that are being decompressed. Room for eight of the longest, or for hundreds of
   * usual ones. Beyond it a call gets RESOURCE_EXHAUSTED. grpc-js: none, so calls that it answers may not be compressed
   * (grpc-js-requests.ts); Envoy decompresses only where a filter says so.
   */
  readonly unpackedBytesTotalMax: number;
  /**
   * Bytes of output per connection that the peer has not read: a hundred thousand answers. Beyond it the connection ends. grpc-js: none;
   * Envoy stops reading at 1 MiB.
   */
  readonly unreadBytesMax: number;
  /**
   * Bytes of unread output on all connections: 32 of them at their bound. Beyond it the connection with the most unread output ends.
   * grpc-js: none; Envoy: its overload manager, if configured.
   */
  readonly unreadBytesTotalMax: number;
  /**
   * Bytes of unread output at which this process stops reading from the peer, until half of it has gone. Ten thousand answers: more than
   * any caller has under way. Envoy: 1 MiB, too (per_connection_buffer_limit_bytes); node:http2: only flow control windows.
   */
  readonly unreadBytesPause: number;
  /**
   * Time from the accepted socket to the end of TLS and preface: a few round trips, on a busy machine at either end. Beyond it the socket
   * is closed. Node: 120 s for TLS, none for the preface; Envoy: none by default.
   */
  readonly handshakeMs: number;
  /**
   * Time within which a frame or header block that has begun must end: its sender had all of it when it began. Beyond it the connection
   * ends. node:http2: none; Envoy: stream_idle_timeout, 5 min.
   */
  readonly headerBlockMs: number;
  /**
   * Time within which output must make progress (bytes for the socket, and answers that wait for a window), and within which a request
   * must arrive completely. Networks lose packets for seconds, not for this long. Beyond it the connection ends, or the incomplete call.
   * grpc-js: none; Envoy: stream_idle_timeout, 5 min.
   */
  readonly stallMs: number;
  /** Time within which a ping must be answered; gRPC's own default. Beyond it the connection ends. grpc-js: the same; Envoy: as configured. */
  readonly keepaliveTimeoutMs: number;
  /**
   * Open connections: some 10 KB each while they idle, 200 MB in all. Beyond it a new socket is closed at once. grpc-js: none; Envoy: its
   * overload manager, if configured.
   */
  readonly connectionsMax: number;
}

export const DEFAULT_BOUNDS: Bounds = {
  headerListBytesMax: 65_536,
  headerBlockBytesMax: 65_536,
  headerFramesMax: 32,
  waitingStreamsMax: 65_536,
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

/** What a peer may do to have its connection ended or a stream refused. Each has a counter. */
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
  "waiting_streams",
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
  streams = 0;
  headerBlocksRemembered = 0;
  headerBlocksDecoded = 0;
}
