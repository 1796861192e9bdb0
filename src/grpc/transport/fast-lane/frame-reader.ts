// Cuts what a socket reads into frames. A frame that lies in one read is not copied; one that is spread over several is put together in
// a buffer of its own size, however small the pieces are.

import { ConnectionError, ErrorCode, FRAME_BYTES_DEFAULT, FRAME_HEAD_BYTES } from "./protocol.ts";

/** Takes frames, in order. */
export interface FrameSink {
  /** The payload is `bytes` from `start` to `end` (exclusive), valid until this returns. False stops the reading for good. */
  takeFrame(type: number, flags: number, streamId: number, bytes: Buffer, start: number, end: number): boolean;
}

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
