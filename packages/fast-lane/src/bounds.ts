// All bounds of the fast lane, and the counters of what exceeded them: memory and time, then control frames, which
// carry no work.

import { ConnectionError, ErrorCode, TROUBLES, type Trouble } from "./protocol.ts";

/**
 * How much one peer, or all peers together, may use. Each bound says why its default has that size, what happens beyond
 * it, and what grpc-js (on node:http2) and Envoy have in its place. "Ends" means that the connection ends and the
 * bound's counter grows.
 */
export const DEFAULT_BOUNDS = {
  /**
   * Bytes of the decoded fields of one header block, plus 32 for each field (RFC 9113). A call's fields take some 300
   * bytes; with the cookies and tokens that a mesh passes on, thousands. Beyond it the connection ends: the rest of the
   * block can't be skipped, because it may change the connection's header table. node:http2: 65,535; Envoy: 60 KiB
   * (max_request_headers_kb).
   */
  headerListBytesMax: 65_536,
  /**
   * Bytes of one header block as sent, over all its frames: as many as the decoded fields may have, because coding
   * makes no block longer. Beyond it the connection ends. node:http2 and Envoy bound only the decoded fields.
   */
  headerBlockBytesMax: 65_536,
  /**
   * Frames of one header block. 64 KiB fill four frames; eight times as many allow for peers that send smaller ones.
   * Beyond it the connection ends. nghttp2, behind node:http2: 8 CONTINUATION frames; Envoy leaves it to its codec.
   */
  headerFramesMax: 32,
  /**
   * Streams of all connections that wait for their peer: for the rest of a request, for a window for the answer, or in
   * a call with streams. Some hundred bytes each, 2 KB in such a call. Beyond it every connection with more than its
   * share (half of the bound, divided by the connections) loses its oldest ones above the share, until it passes the
   * bound on resets. So a peer with one such stream never loses it, and if all have equally many, half of them are
   * left. Must be at least twice `connectionsMax`. grpc-js: grpc-js-streams.ts; Envoy: max_concurrent_streams, per
   * connection only.
   */
  waitingStreamsMax: 65_536,
  /**
   * Bytes per connection of frames, header blocks and requests that are not whole or not handled, and of answers of
   * calls with streams that the peer does not read. Room for four of the longest requests (4 MiB). Beyond it the call
   * that needed the last bytes gets RESOURCE_EXHAUSTED. grpc-js: one message per stream; Envoy: 1 MiB
   * (per_connection_buffer_limit_bytes).
   */
  partialBytesMax: 16_777_216,
  /**
   * The same on all connections: four connections at their bound, or 13 KB for each of 5,000. Beyond it connections
   * with more than their share (half of the bound, divided by the connections) end, those first whose input has been
   * incomplete longest, until three quarters are left. Calls mostly come whole in one read, and all others within
   * milliseconds, so peers that never end theirs go first. grpc-js: grpc-js-streams.ts, for messages only; Envoy: its
   * overload manager, if configured.
   */
  partialBytesTotalMax: 67_108_864,
  /**
   * Bytes of the header fields that the peers of all connections refer to (HPACK's dynamic tables): 5,000 connections
   * that fill theirs although they are asked to keep to half, or all that are allowed, with Envoy's fields and traces.
   * Beyond it connections with more than their share end by GOAWAY, those first that have been silent longest, until
   * three quarters are left. node:http2, Envoy: no total.
   */
  headerTablesBytesMax: 67_108_864,
  /**
   * Bytes of output per connection that the peer has not read: a hundred thousand answers. Beyond it the connection
   * ends. grpc-js: none; Envoy stops reading at 1 MiB.
   */
  unreadBytesMax: 8_388_608,
  /**
   * Bytes of unread output on all connections: 32 of them at their bound. Beyond it connections end, those first that
   * leave theirs unread longest. grpc-js: none; Envoy: its overload manager, if configured.
   */
  unreadBytesTotalMax: 268_435_456,
  /**
   * Bytes of unread output at which this process stops reading from the peer, until half of it has gone. Ten thousand
   * answers: more than any caller has under way. Envoy: 1 MiB, too (per_connection_buffer_limit_bytes); node:http2:
   * only flow control windows.
   */
  unreadBytesPause: 1_048_576,
  /**
   * Time from the accepted socket to the end of TLS and preface: a few round trips, on a busy machine at either end.
   * Beyond it the socket is closed. Node: 120 s for TLS, none for the preface; Envoy: none by default.
   */
  handshakeMs: 10_000,
  /**
   * Time within which a frame or header block that has begun must end: its sender had all of it when it began. Beyond
   * it the connection ends. node:http2: none; Envoy: stream_idle_timeout, 5 min.
   */
  headerBlockMs: 10_000,
  /**
   * Time within which output must make progress (bytes for the socket, and answers that wait for a window), and within
   * which a request must arrive completely. Networks lose packets for seconds, not for this long. Beyond it the
   * connection ends, or the incomplete call. grpc-js: none; Envoy: stream_idle_timeout, 5 min.
   */
  stallMs: 30_000,
  /**
   * Time within which a ping must be answered; gRPC's own default. Beyond it the connection ends. grpc-js: the same;
   * Envoy: as configured.
   */
  keepaliveTimeoutMs: 20_000,
  /**
   * Open connections: 9 to 25 KB each while they idle, by what of their header table they fill; 180 to 250 MB in all,
   * because of `headerTablesBytesMax`. Beyond it a new socket is closed at once. grpc-js: none; Envoy: its overload
   * manager, if configured.
   */
  connectionsMax: 20_000,
};

export type Bounds = Readonly<typeof DEFAULT_BOUNDS>;

/** Counters of the fast lane; they only grow. */
export class ServerCounts {
  connections = 0;
  unaryCalls = 0;
  streams = 0;
  headerBlocksRemembered = 0;
  headerBlocksDecoded = 0;
  readonly troubles = Object.fromEntries(TROUBLES.map((trouble) => [trouble, 0])) as Record<Trouble, number>;
}

interface Allowance {
  readonly trouble: Trouble;
  readonly stockMax: number;
  readonly perSecond: number;
  readonly perCall: number;
}

/** Kinds of control frames, as indices of ALLOWANCES. A RST_STREAM that the peer makes us send counts as its own. */
export const ControlFrame = { reset: 0, ping: 1, settings: 2, other: 3, refused: 4 } as const;
export type ControlFrame = (typeof ControlFrame)[keyof typeof ControlFrame];

// In the order of ControlFrame. A peer that uses an allowance up loses its connection (ENHANCE_YOUR_CALM), and the
// counter `trouble` grows.
const ALLOWANCES: readonly Allowance[] = [
  // A proxy cancels a thousand calls at once when the store behind us is slow, which is no attack. Each served call
  // allows one more reset. Envoy: 500 streams reset early; node:http2: 1,000 at once, then 33 a second.
  { trouble: "reset_flood", stockMax: 4_096, perSecond: 400, perCall: 1 },
  // A gRPC client that measures bandwidth sends a ping per round trip while it is served. nghttp2, behind node:http2,
  // and Envoy: 1,000 answers that the peer has not read.
  { trouble: "ping_flood", stockMax: 256, perSecond: 32, perCall: 1 },
  // A client sends its settings once, and acknowledges ours once. nghttp2 and Envoy: the same bound as for pings.
  { trouble: "settings_flood", stockMax: 64, perSecond: 4, perCall: 0 },
  // Window updates, priorities, empty frames and unknown ones; a call needs two or three of them. Envoy: one empty
  // frame in a row, 100 priorities per stream, 10 window updates per DATA frame sent; node:http2: none.
  { trouble: "frame_flood", stockMax: 8_192, perSecond: 1_024, perCall: 8 },
  // Streams that are refused because too many are open; as many as resets, because each makes us send one. node:http2:
  // 100 refused streams (maxSessionRejectedStreams); Envoy: none.
  { trouble: "stream_flood", stockMax: 4_096, perSecond: 400, perCall: 1 },
];

/**
 * A connection's allowances. Time refills them, and so does every served call: a busy peer may ping and cancel more
 * than an idle one.
 */
export class ControlFrameAllowances {
  readonly #left = ALLOWANCES.map(({ stockMax }) => stockMax);
  // Served calls that the allowances have not been refilled for yet.
  #served = 0;

  /** Notes a served call. */
  noteCall(): void {
    this.#served++;
  }

  /** Takes one frame from its allowance. Throws ConnectionError if none is left. */
  spend(frame: ControlFrame): void {
    const flood = this.overdraw(frame);
    if (flood !== undefined) throw flood;
  }

  /** Takes one frame from its allowance. Returns the error to end the connection with if none was left. */
  overdraw(frame: ControlFrame): ConnectionError | undefined {
    const left = this.#left[frame] as number;
    if (left === 0) this.refill(0);
    this.#left[frame] = (this.#left[frame] as number) - 1;
    if ((this.#left[frame] as number) >= 0) return undefined;
    const { trouble } = ALLOWANCES[frame] as Allowance;
    return new ConnectionError(ErrorCode.enhanceYourCalm, trouble, trouble);
  }

  /** Refills the allowances for `seconds` of time, and for the calls that were served since. */
  refill(seconds: number): void {
    for (let i = 0; i < ALLOWANCES.length; i++) {
      const { stockMax, perSecond, perCall } = ALLOWANCES[i] as Allowance;
      this.#left[i] = Math.min(stockMax, (this.#left[i] as number) + seconds * perSecond + this.#served * perCall);
    }
    this.#served = 0;
  }
}
