// Bytes to frames, and frames to header blocks.

import { type Bounds, FloodError, type ServerCounts } from "./bounds.ts";
import {
  ConnectionError,
  ErrorCode,
  Flag,
  FRAME_BYTES_DEFAULT,
  FRAME_HEAD_BYTES,
  PRIORITY_BYTES,
  protocolError,
} from "./protocol.ts";

const NOTHING = Buffer.alloc(0);

/** Takes frames, in order. */
export interface FrameSink {
  /** The payload is `bytes` from `start` to `end` (exclusive), valid until this returns. False stops the reading for good. */
  takeFrame(type: number, flags: number, streamId: number, bytes: Buffer, start: number, end: number): boolean;
}

/**
 * Cuts what a socket reads into frames. A frame that lies in one read is not copied; one that is spread over several is put together in a
 * buffer of its own size, however small the pieces are.
 */
export class FrameReader {
  readonly #sink: FrameSink;
  readonly #head = Buffer.allocUnsafe(FRAME_HEAD_BYTES);
  // Bytes of an incomplete frame head.
  #headFilled = 0;
  // The incomplete frame, with its head.
  #frame: Buffer | undefined;
  #frameFilled = 0;

  constructor(sink: FrameSink) {
    this.#sink = sink;
  }

  /** True if a frame has begun and not ended. */
  get isWithinFrame(): boolean {
    return this.#headFilled > 0 || this.#frame !== undefined;
  }

  /** Passes on every frame that `chunk`, from `start` on, completes. Throws ConnectionError if a frame is too long. */
  read(chunk: Buffer, start: number): void {
    let at = start;
    if (this.isWithinFrame) {
      at = this.#complete(chunk, at);
      if (at < 0) return;
    }
    const end = chunk.length;
    while (end - at >= FRAME_HEAD_BYTES) {
      const frameEnd = at + FRAME_HEAD_BYTES + lengthAt(chunk, at);
      if (frameEnd > end) {
        this.#begin(chunk, at, frameEnd - at);
        return;
      }
      if (!this.#pass(chunk, at, frameEnd)) return;
      at = frameEnd;
    }
    if (at < end) this.#headFilled = chunk.copy(this.#head, 0, at);
  }

  #begin(chunk: Buffer, at: number, size: number): void {
    this.#frame = Buffer.allocUnsafe(size);
    this.#frameFilled = chunk.copy(this.#frame, 0, at);
  }

  // Returns where the next frame begins, or -1 if the chunk is used up or the sink has stopped.
  #complete(chunk: Buffer, start: number): number {
    let at = start;
    if (this.#frame === undefined) {
      const taken = chunk.copy(this.#head, this.#headFilled, at);
      this.#headFilled += taken;
      at += taken;
      if (this.#headFilled < FRAME_HEAD_BYTES) return -1;
      this.#headFilled = 0;
      this.#begin(this.#head, 0, FRAME_HEAD_BYTES + lengthAt(this.#head, 0));
    }
    const frame = this.#frame as unknown as Buffer;
    const taken = chunk.copy(frame, this.#frameFilled, at);
    this.#frameFilled += taken;
    at += taken;
    if (this.#frameFilled < frame.length) return -1;
    this.#frame = undefined;
    return this.#pass(frame, 0, frame.length) ? at : -1;
  }

  #pass(bytes: Buffer, at: number, end: number): boolean {
    const streamId =
      (((bytes[at + 5] as number) & 0x7f) << 24) |
      ((bytes[at + 6] as number) << 16) |
      ((bytes[at + 7] as number) << 8) |
      (bytes[at + 8] as number);
    const type = bytes[at + 3] as number;
    return this.#sink.takeFrame(type, bytes[at + 4] as number, streamId, bytes, at + FRAME_HEAD_BYTES, end);
  }
}

function lengthAt(bytes: Buffer, at: number): number {
  const length = ((bytes[at] as number) << 16) | ((bytes[at + 1] as number) << 8) | (bytes[at + 2] as number);
  if (length > FRAME_BYTES_DEFAULT) {
    throw new ConnectionError(
      ErrorCode.frameSizeError,
      `a frame of ${length} bytes; expected at most ${FRAME_BYTES_DEFAULT}`,
    );
  }
  return length;
}

/** Puts header blocks together from HEADERS and CONTINUATION frames, without padding and priority. */
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
