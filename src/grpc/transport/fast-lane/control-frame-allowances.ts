// Bounds the control frames of a peer, which carry no work. Each kind has an allowance that time refills, and so does every served
// call: a busy peer may ping and cancel more than an idle one.

import type { LaneCounts, Trouble } from "./bounds.ts";
import { ConnectionError, ErrorCode } from "./protocol.ts";

interface Allowance {
  readonly trouble: Trouble;
  readonly stockMax: number;
  readonly perSecond: number;
  readonly perCall: number;
}

/** Kinds of control frames, as indices of ALLOWANCES. A RST_STREAM that the peer makes us send counts as its own. */
export const ControlFrame = { reset: 0, ping: 1, settings: 2, other: 3, refused: 4 } as const;
export type ControlFrame = (typeof ControlFrame)[keyof typeof ControlFrame];

// In the order of ControlFrame. A peer that uses an allowance up loses its connection (ENHANCE_YOUR_CALM), and the counter `trouble`
// grows.
const ALLOWANCES: readonly Allowance[] = [
  // A proxy cancels a thousand calls at once when the store behind us is slow, which is no attack. Each served call allows one more
  // reset. Envoy: 500 streams reset early; node:http2: 1,000 at once, then 33 a second.
  { trouble: "reset_flood", stockMax: 4_096, perSecond: 400, perCall: 1 },
  // A gRPC client that measures bandwidth sends a ping per round trip while it is served. nghttp2, behind node:http2, and Envoy: 1,000
  // answers that the peer has not read.
  { trouble: "ping_flood", stockMax: 256, perSecond: 32, perCall: 1 },
  // A client sends its settings once, and acknowledges ours once. nghttp2 and Envoy: the same bound as for pings.
  { trouble: "settings_flood", stockMax: 64, perSecond: 4, perCall: 0 },
  // Window updates, priorities, empty frames and unknown ones; a call needs two or three of them. Envoy: one empty frame in a row, 100
  // priorities per stream, 10 window updates per DATA frame sent; node:http2: none.
  { trouble: "frame_flood", stockMax: 8_192, perSecond: 1_024, perCall: 8 },
  // Streams that are refused because too many are open; as many as resets, because each makes us send one. node:http2: 100 refused
  // streams (maxSessionRejectedStreams); Envoy: none.
  { trouble: "stream_flood", stockMax: 4_096, perSecond: 400, perCall: 1 },
];

export class ControlFrameAllowances {
  readonly #counts: LaneCounts;
  readonly #left = ALLOWANCES.map(({ stockMax }) => stockMax);
  // Served calls that the allowances have not been refilled for yet.
  #served = 0;

  constructor(counts: LaneCounts) {
    this.#counts = counts;
  }

  /** Notes a served call. */
  noteCall(): void {
    this.#served++;
  }

  /** Takes one frame from its allowance. Throws FloodError if none is left. */
  spend(frame: ControlFrame): void {
    const flood = this.overdraw(frame);
    if (flood !== undefined) throw flood;
  }

  /** Takes one frame from its allowance. Returns the error to end the connection with if none was left. */
  overdraw(frame: ControlFrame): FloodError | undefined {
    const left = this.#left[frame] as number;
    if (left === 0) this.#refill(0);
    this.#left[frame] = (this.#left[frame] as number) - 1;
    if ((this.#left[frame] as number) >= 0) return undefined;
    const { trouble } = ALLOWANCES[frame] as Allowance;
    this.#counts.troubles[trouble]++;
    return new FloodError(ErrorCode.enhanceYourCalm, trouble);
  }

  /** Refills the allowances for `seconds` of time. */
  refill(seconds: number): void {
    this.#refill(seconds);
  }

  #refill(seconds: number): void {
    for (let i = 0; i < ALLOWANCES.length; i++) {
      const { stockMax, perSecond, perCall } = ALLOWANCES[i] as Allowance;
      this.#left[i] = Math.min(stockMax, (this.#left[i] as number) + seconds * perSecond + this.#served * perCall);
    }
    this.#served = 0;
  }
}

/** Ends a connection for a bound whose counter has already grown. */
export class FloodError extends ConnectionError {}
