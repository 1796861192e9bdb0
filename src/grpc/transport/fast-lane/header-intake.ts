// Puts header blocks together from HEADERS and CONTINUATION frames, without padding and priority.

import type { Bounds, LaneCounts } from "./bounds.ts";
import { FloodError } from "./control-frame-allowances.ts";
import { ConnectionError, ErrorCode, Flag, PRIORITY_BYTES } from "./protocol.ts";

/** Takes whole blocks. */
export interface BlockSink {
  /** The block is `bytes` from `start` to `end` (exclusive), valid until this returns. */
  takeHeaderBlock(streamId: number, isEnd: boolean, bytes: Buffer, start: number, end: number): void;
}

export class HeaderIntake {
  readonly #sink: BlockSink;
  readonly #bounds: Bounds;
  readonly #counts: LaneCounts;
  /** The stream whose block has begun and not ended; 0 if none. No other frame may come before its end. */
  openStreamId = 0;
  #isEnd = false;
  #block: Buffer | undefined;
  #filled = 0;
  #frames = 0;

  constructor(sink: BlockSink, bounds: Bounds, counts: LaneCounts) {
    this.#sink = sink;
    this.#bounds = bounds;
    this.#counts = counts;
  }

  /** Takes the payload of a HEADERS frame. */
  takeHeaders(streamId: number, flags: number, bytes: Buffer, from: number, to: number): void {
    if (streamId === 0) throw protocolError("HEADERS on stream 0");
    let start = from;
    let end = to;
    if (flags & Flag.padded) {
      end -= bytes[start++] as number;
      if (from === to || end < start) throw protocolError("more padding than payload");
    }
    if (flags & Flag.priority) {
      if (end - start < PRIORITY_BYTES)
        throw new ConnectionError(ErrorCode.frameSizeError, "HEADERS without its priority");
      const dependency = bytes.readUInt32BE(start) & 0x7fff_ffff;
      if (dependency === streamId) throw protocolError("a stream that depends on itself");
      start += PRIORITY_BYTES;
    }
    const isEnd = (flags & Flag.endStream) !== 0;
    if (flags & Flag.endHeaders) {
      this.#sink.takeHeaderBlock(streamId, isEnd, bytes, start, end);
      return;
    }
    this.openStreamId = streamId;
    this.#isEnd = isEnd;
    this.#frames = 0;
    this.#filled = 0;
    this.#append(bytes, start, end);
  }

  /** Takes the payload of a CONTINUATION frame. */
  takeContinuation(streamId: number, flags: number, bytes: Buffer, start: number, end: number): void {
    if (this.openStreamId === 0 || streamId !== this.openStreamId) throw protocolError("CONTINUATION of nothing");
    this.#append(bytes, start, end);
    if ((flags & Flag.endHeaders) === 0) return;
    const block = this.#block as Buffer;
    this.openStreamId = 0;
    this.#block = undefined;
    this.#sink.takeHeaderBlock(streamId, this.#isEnd, block, 0, this.#filled);
  }

  #append(bytes: Buffer, start: number, end: number): void {
    const { headerBlockBytesMax, headerFramesMax } = this.#bounds;
    const size = this.#filled + end - start;
    if (++this.#frames > headerFramesMax || size > headerBlockBytesMax) {
      this.#counts.troubles.header_flood++;
      throw new FloodError(ErrorCode.enhanceYourCalm, "a header block without end");
    }
    if (this.#block === undefined || size > this.#block.length) {
      const larger = Buffer.allocUnsafe(Math.min(headerBlockBytesMax, Math.max(2 * size, 1_024)));
      this.#block?.copy(larger, 0, 0, this.#filled);
      this.#block = larger;
    }
    bytes.copy(this.#block, this.#filled, start, end);
    this.#filled = size;
  }
}

function protocolError(message: string): ConnectionError {
  return new ConnectionError(ErrorCode.protocolError, message);
}
