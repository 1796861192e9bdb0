// Puts header blocks together from HEADERS and CONTINUATION frames, without padding and priority.

import { type Bounds, FloodError, type ServerCounts } from "./bounds.ts";
import { ConnectionError, ErrorCode, Flag, PRIORITY_BYTES, protocolError } from "./protocol.ts";

const NOTHING = Buffer.alloc(0);

export class HeaderIntake {
  readonly #bounds: Bounds;
  readonly #counts: ServerCounts;
  /** The stream whose block has begun and not ended; 0 if none. No other frame may come before its end. */
  openStreamId = 0;
  /** The last whole block, `bytes` from `start` to `end` (exclusive), until the next frame; and whether it ends its stream. */
  bytes: Buffer = NOTHING;
  start = 0;
  end = 0;
  isEnd = false;
  // The block that is put together.
  #block: Buffer = NOTHING;
  #filled = 0;
  #frames = 0;

  constructor(bounds: Bounds, counts: ServerCounts) {
    this.#bounds = bounds;
    this.#counts = counts;
  }

  /** Takes the payload of a HEADERS frame. True if the block is whole. */
  takeHeaders(streamId: number, flags: number, bytes: Buffer, from: number, to: number): boolean {
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
    this.isEnd = (flags & Flag.endStream) !== 0;
    if (flags & Flag.endHeaders) return this.#pass(bytes, start, end);
    this.openStreamId = streamId;
    this.#frames = 0;
    this.#filled = 0;
    this.#append(bytes, start, end);
    return false;
  }

  /** Takes the payload of a CONTINUATION frame. True if the block is whole. */
  takeContinuation(streamId: number, flags: number, bytes: Buffer, start: number, end: number): boolean {
    if (this.openStreamId === 0 || streamId !== this.openStreamId) throw protocolError("CONTINUATION of nothing");
    this.#append(bytes, start, end);
    if ((flags & Flag.endHeaders) === 0) return false;
    this.openStreamId = 0;
    const block = this.#block;
    this.#block = NOTHING;
    return this.#pass(block, 0, this.#filled);
  }

  #pass(bytes: Buffer, start: number, end: number): true {
    this.bytes = bytes;
    this.start = start;
    this.end = end;
    return true;
  }

  #append(bytes: Buffer, start: number, end: number): void {
    const { headerBlockBytesMax, headerFramesMax } = this.#bounds;
    const size = this.#filled + end - start;
    if (++this.#frames > headerFramesMax || size > headerBlockBytesMax) {
      this.#counts.troubles.header_flood++;
      throw new FloodError(ErrorCode.enhanceYourCalm, "a header block without end");
    }
    if (size > this.#block.length) {
      const larger = Buffer.allocUnsafe(Math.min(headerBlockBytesMax, Math.max(2 * size, 1_024)));
      this.#block.copy(larger, 0, 0, this.#filled);
      this.#block = larger;
    }
    bytes.copy(this.#block, this.#filled, start, end);
    this.#filled = size;
  }
}
