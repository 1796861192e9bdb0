// The sending half of a connection: answers and control frames, in the order in which they may go, within the peer's windows. A stream
// keeps what has to wait for a window, or for the socket.

import { GrpcStatus } from "../../unary.ts";
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
} from "./protocol.ts";
import { OK_TRAILERS_BYTES_MAX, ResponseBlocks } from "./response-blocks.ts";
import type { Ending, Stream } from "./stream.ts";

const GOAWAY_DEBUG_CHARS_MAX = 200;

export class Sender {
  readonly output: Output;
  readonly blocks = new ResponseBlocks();
  /** Bytes of DATA that the peer allows on all streams together. */
  window = WINDOW_DEFAULT;
  /** The initial window of a stream, by the peer's settings. */
  streamWindow = WINDOW_DEFAULT;
  /** Largest payload to send. The peer's MAX_FRAME_SIZE does not raise it, so that a frame fits into a chunk. */
  frameBytesMax = FRAME_BYTES_DEFAULT;
  /** Streams that have something to send and wait for a window. */
  readonly blocked = new Set<Stream>();
  /** Those of them that wait for the connection's window or output, in the order in which they get it; only these continue when it grows. */
  readonly held = new Set<Stream>();
  readonly #unreadBytesPause: number;

  /** While the peer leaves more than `unreadBytesPause` bytes of output unread, answers that wait go on waiting. */
  constructor(output: Output, unreadBytesPause: number) {
    this.output = output;
    this.#unreadBytesPause = unreadBytesPause;
  }

  /** True while the peer leaves so much output unread that what can wait has to. */
  get isFull(): boolean {
    return this.output.unread > this.#unreadBytesPause;
  }

  /** Sends the whole answer of a good call at once. False if a window is too small for it: then nothing was sent. */
  answerAtOnce(stream: Stream, message: Uint8Array): boolean {
    const { output, blocks } = this;
    const size = message.length + MESSAGE_HEAD_BYTES;
    if (size > this.frameBytesMax || size > this.window || size > stream.sendWindow) return false;
    const head = blocks.head();
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

  /** Sends the answers that wait on a stream, as far as the peer allows, and then its end. True if the stream has ended. */
  send(stream: Stream): boolean {
    const { answers } = stream;
    if (answers.length > 0 && !stream.hasHead) {
      stream.hasHead = true;
      this.headers(stream.id, this.blocks.head(), false);
    }
    while (answers.length > 0) {
      const answer = answers[0] as Buffer;
      const sent = this.isFull ? stream.sent : this.#data(stream, answer, stream.sent);
      if (sent > stream.sent) stream.starvedUs = 0;
      stream.sent = sent;
      if (sent < answer.length) {
        this.blocked.add(stream);
        if (stream.sendWindow > 0) this.held.add(stream);
        return false;
      }
      answers.shift();
      stream.sent = 0;
    }
    if (stream.ending === undefined) return false;
    this.#end(stream, stream.ending);
    return true;
  }

  #end(stream: Stream, ending: Ending): void {
    const { blocks } = this;
    if (ending === "body") this.output.frame(FrameType.data, Flag.endStream, stream.id, NOTHING);
    else if (stream.hasHead && ending.code === GrpcStatus.ok) this.headers(stream.id, blocks.okTrailers(), true);
    else this.headers(stream.id, blocks.failure(ending.code, ending.details, stream.hasHead), true);
  }

  // Returns the start of the rest.
  #data(stream: Stream, bytes: Uint8Array, start: number): number {
    let at = start;
    while (at < bytes.length) {
      const size = Math.min(bytes.length - at, this.frameBytesMax, this.window, stream.sendWindow);
      if (size <= 0) return at;
      this.output.frame(FrameType.data, 0, stream.id, bytes.subarray(at, at + size));
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

  /** Notes that a stream no longer waits; returns whether it did. */
  release(stream: Stream): boolean {
    this.held.delete(stream);
    return this.blocked.delete(stream);
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
