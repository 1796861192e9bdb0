// The sending half of a connection: answers and control frames, in the order in which they may go, within the peer's windows. A stream
// keeps what has to wait for a window.

import { type Output, writeFrameHead } from "./output.ts";
import {
  type ErrorCode,
  Flag,
  FRAME_BYTES_DEFAULT,
  FRAME_HEAD_BYTES,
  FrameType,
  MESSAGE_HEAD_BYTES,
  STREAM_ID_LARGEST,
  WINDOW_DEFAULT,
  WINDOW_LARGEST,
} from "./protocol.ts";
import { OK_TRAILERS_BYTES_MAX, ResponseBlocks } from "./response-blocks.ts";
import type { Stream } from "./stream.ts";

const GOAWAY_DEBUG_CHARS_MAX = 200;

/** A stream whose answer is one message. */
export interface AnsweredStream extends Stream {
  /** Keeps an answer whose first `sent` bytes have been sent; `resume` sends the rest. */
  wait(answer: Buffer, sent: number): void;
}

export class Sender {
  readonly output: Output;
  readonly blocks = new ResponseBlocks();
  /** Bytes of DATA that the peer allows on all streams together. */
  window = WINDOW_DEFAULT;
  /** The initial window of a stream, by the peer's settings. */
  streamWindow = WINDOW_DEFAULT;
  /** Largest payload to send. The peer's MAX_FRAME_SIZE does not raise it (peer-settings.ts), so that a frame fits into a chunk. */
  frameBytesMax = FRAME_BYTES_DEFAULT;
  /** Streams that have something to send and wait for a window. */
  readonly blocked = new Set<Stream>();
  // Streams among them that wait for the connection's window or output, in the order in which they will get it; only these are resumed
  // when it grows.
  readonly #held = new Set<Stream>();

  constructor(output: Output) {
    this.output = output;
  }

  /** Sends a good answer. True if all of it was sent; otherwise the stream keeps the rest until the windows allow more. */
  answer(stream: AnsweredStream, message: Uint8Array): boolean {
    const { output, blocks } = this;
    const head = blocks.head();
    const size = message.length + MESSAGE_HEAD_BYTES;
    if (size > this.frameBytesMax || size > this.window || size > stream.sendWindow) {
      this.headers(stream.id, head, false);
      return this.answerRest(stream, messageOf(message), 0);
    }
    const { id } = stream;
    const into = output.reserve(head.length + size + 3 * FRAME_HEAD_BYTES + OK_TRAILERS_BYTES_MAX);
    let at = writeFrameHead(into, output.at, head.length, FrameType.headers, Flag.endHeaders, id);
    at = copyBytes(head, into, at);
    at = writeFrameHead(into, at, size, FrameType.data, 0, id);
    at = writeMessageHead(into, at, message.length);
    at = copyBytes(message, into, at);
    this.window -= size;
    const trailers = blocks.okTrailers();
    at = writeFrameHead(into, at, trailers.length, FrameType.headers, Flag.endHeaders | Flag.endStream, id);
    output.advanceTo(copyBytes(trailers, into, at));
    return true;
  }

  /** Sends the rest of an answer whose headers were sent. True if all of it was sent; its trailers go after its last byte. */
  answerRest(stream: AnsweredStream, answer: Buffer, sent: number): boolean {
    const now = this.data(stream, answer, sent, false);
    if (now < answer.length) {
      stream.wait(answer, now);
      this.hold(stream);
      return false;
    }
    this.headers(stream.id, this.blocks.okTrailers(), true);
    return true;
  }

  /**
   * Sends `bytes` from `start` on, as far as the windows allow; returns the start of the rest. With `isEnd` the last byte ends our side
   * of the stream.
   */
  data(stream: Stream, bytes: Uint8Array, start: number, isEnd: boolean): number {
    let at = start;
    while (at < bytes.length) {
      const size = Math.min(bytes.length - at, this.frameBytesMax, this.window, stream.sendWindow);
      if (size <= 0) return at;
      const flags = isEnd && at + size === bytes.length ? Flag.endStream : 0;
      this.output.frame(FrameType.data, flags, stream.id, bytes.subarray(at, at + size));
      this.window -= size;
      stream.sendWindow -= size;
      at += size;
    }
    return at;
  }

  /** Sends a header block, in several frames if it is long. */
  headers(streamId: number, block: Uint8Array, isEnd: boolean): void {
    const endStream = isEnd ? Flag.endStream : 0;
    let size = Math.min(block.length, this.frameBytesMax);
    let flags = size === block.length ? Flag.endHeaders | endStream : endStream;
    this.output.frame(FrameType.headers, flags, streamId, block.subarray(0, size));
    for (let at = size; at < block.length; at += size) {
      size = Math.min(block.length - at, this.frameBytesMax);
      flags = at + size === block.length ? Flag.endHeaders : 0;
      this.output.frame(FrameType.continuation, flags, streamId, block.subarray(at, at + size));
    }
  }

  /** Allows the peer `bytes` more, on a stream or, with stream 0, on the connection. */
  windowUpdate(streamId: number, bytes: number): void {
    this.#words(FrameType.windowUpdate, streamId, bytes);
  }

  rstStream(streamId: number, code: ErrorCode): void {
    this.#words(FrameType.rstStream, streamId, code);
  }

  ping(payload: Uint8Array, isAck: boolean): void {
    this.output.frame(FrameType.ping, isAck ? Flag.ack : 0, 0, payload);
  }

  /** Sends our settings, given as pairs of identifier and value. */
  settings(pairs: readonly (readonly [id: number, value: number])[]): void {
    const payload = Buffer.alloc(pairs.length * 6);
    for (const [i, [id, value]] of pairs.entries()) {
      payload.writeUInt16BE(id, 6 * i);
      payload.writeUInt32BE(value, 6 * i + 2);
    }
    this.output.frame(FrameType.settings, 0, 0, payload);
  }

  acknowledgeSettings(): void {
    this.output.frame(FrameType.settings, Flag.ack, 0, NOTHING);
  }

  /** Sends GOAWAY: no stream above `lastId` will be served. */
  goaway(lastId: number, code: ErrorCode, debug = ""): void {
    const text = Buffer.from(debug.slice(0, GOAWAY_DEBUG_CHARS_MAX), "utf8");
    const payload = Buffer.alloc(8 + text.length);
    payload.writeUInt32BE(lastId & STREAM_ID_LARGEST, 0);
    payload.writeUInt32BE(code, 4);
    text.copy(payload, 8);
    this.output.frame(FrameType.goaway, 0, 0, payload);
  }

  /** Widens the connection's window. False if it exceeds the largest that the protocol allows. */
  widen(bytes: number): boolean {
    this.window += bytes;
    return this.window <= WINDOW_LARGEST;
  }

  /** Notes that a stream has more to send than it may now. */
  hold(stream: Stream): void {
    this.blocked.add(stream);
    if (stream.sendWindow > 0) this.#held.add(stream);
  }

  /** Notes that a stream no longer waits; returns whether it did. */
  release(stream: Stream): boolean {
    this.#held.delete(stream);
    return this.blocked.delete(stream);
  }

  /** Resumes the streams that wait for the connection, one after another, while its window is open. */
  resumeHeld(): void {
    let left = this.#held.size;
    for (const stream of this.#held) {
      if (left-- === 0 || this.window <= 0) return;
      this.release(stream);
      stream.resume();
    }
  }

  /** Resumes every stream that waits, because the peer's settings have changed the windows of all. */
  resumeAll(): void {
    for (const stream of [...this.blocked]) {
      this.release(stream);
      stream.resume();
    }
  }

  #words(type: (typeof FrameType)[keyof typeof FrameType], streamId: number, word: number): void {
    const into = this.output.reserve(FRAME_HEAD_BYTES + 4);
    const at = writeFrameHead(into, this.output.at, 4, type, 0, streamId);
    this.output.advanceTo(writeWord(into, at, word));
  }
}

const NOTHING = Buffer.alloc(0);

/** A message with its head. */
export function messageOf(message: Uint8Array): Buffer {
  const whole = Buffer.allocUnsafe(message.length + MESSAGE_HEAD_BYTES);
  whole.set(message, writeMessageHead(whole, 0, message.length));
  return whole;
}

function writeMessageHead(into: Uint8Array, at: number, length: number): number {
  into[at] = 0;
  return writeWord(into, at + 1, length);
}

function writeWord(into: Uint8Array, at: number, word: number): number {
  into[at] = word >>> 24;
  into[at + 1] = word >>> 16;
  into[at + 2] = word >>> 8;
  into[at + 3] = word;
  return at + 4;
}

// Answers are some dozen bytes, for which a loop is faster than `set`.
function copyBytes(from: Uint8Array, into: Uint8Array, at: number): number {
  const { length } = from;
  if (length > 64) into.set(from, at);
  else for (let i = 0; i < length; i++) into[at + i] = from[i] as number;
  return at + length;
}
