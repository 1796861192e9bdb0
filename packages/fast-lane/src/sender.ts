// The sending half of a connection: answers and control frames, in the order in which they may go, within the peer's
// windows. A stream keeps what has to wait for a window, or for the socket.

import type { Socket } from "node:net";
import { OK_TRAILERS_BYTES_MAX, ResponseBlocks } from "./header-blocks.ts";
import { GrpcStatus } from "./methods.ts";
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
import type { Ending, Stream } from "./stream.ts";

/** Largest payload to send. The peer's MAX_FRAME_SIZE does not raise it, so that a frame fits into a chunk. */
const FRAME_BYTES_MAX = FRAME_BYTES_DEFAULT;
const GOAWAY_DEBUG_CHARS_MAX = 200;

export class Sender {
  readonly output: Output;
  readonly blocks = new ResponseBlocks();
  /** Bytes of DATA that the peer allows on all streams together. */
  window = WINDOW_DEFAULT;
  /** The initial window of a stream, by the peer's settings. */
  streamWindow = WINDOW_DEFAULT;
  /** Streams that have something to send and wait for a window. */
  readonly blocked = new Set<Stream>();
  /**
   * Blocked streams that wait for the connection's window or output, in their order; only these continue when it grows.
   */
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
    if (size > FRAME_BYTES_MAX || size > this.window || size > stream.sendWindow) return false;
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

  /**
   * Sends the answers that wait on a stream, as far as the peer allows, and then its end. True if the stream has ended.
   */
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
      const size = Math.min(bytes.length - at, FRAME_BYTES_MAX, this.window, stream.sendWindow);
      if (size <= 0) return at;
      this.output.frame(FrameType.data, 0, stream.id, bytes.subarray(at, at + size));
      this.window -= size;
      stream.sendWindow -= size;
      at += size;
    }
    return at;
  }

  /** Sends a header block. It fits into a frame: its longest text is a `grpc-message`, which grpc-headers.ts bounds. */
  headers(streamId: number, block: Uint8Array, isEnd: boolean): void {
    this.output.frame(FrameType.headers, Flag.endHeaders | (isEnd ? Flag.endStream : 0), streamId, block);
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

export const CHUNK_BYTES = 32_768;
const POOLED_CHUNKS_MAX = 256;

/** Unused chunks; one pool per server. */
export class ChunkPool {
  readonly #free: Buffer[] = [];

  take(): Buffer {
    return this.#free.pop() ?? Buffer.allocUnsafeSlow(CHUNK_BYTES);
  }

  giveBack(chunk: Buffer): void {
    if (this.#free.length < POOLED_CHUNKS_MAX) this.#free.push(chunk);
  }
}

/**
 * The output of one socket: frames are written into chunks, which are handed to the socket once a turn. A chunk belongs
 * to the socket until the socket calls back, and is reused only after that. While the socket is behind, only full
 * chunks are handed over: otherwise a peer that reads slowly would hold a whole chunk for every few bytes.
 */
export class Output {
  readonly #socket: Socket;
  readonly #pool: ChunkPool;
  // The full chunks of this turn, and the chunk that is being filled.
  #full: Buffer[] = [];
  #bytes: Buffer | undefined;
  #at = 0;
  // Chunks that belong to the socket, oldest first.
  readonly #handed: Buffer[] = [];
  readonly #onWritten: (error?: Error | null) => void;
  #isClosed = false;
  /** Bytes written here for which the socket has not called back. */
  unread = 0;

  /** `written` is called whenever some output has left this process. */
  constructor(socket: Socket, pool: ChunkPool, written: () => void) {
    this.#socket = socket;
    this.#pool = pool;
    this.#onWritten = (error) => this.#written(error, written);
  }

  /** Returns a buffer with room for `size` bytes, at most CHUNK_BYTES, from `at` on. */
  reserve(size: number): Buffer {
    if (this.#bytes === undefined) {
      this.#bytes = this.#pool.take();
      this.#at = 0;
    } else if (this.#at + size > CHUNK_BYTES) {
      this.#full.push(this.#bytes.subarray(0, this.#at));
      this.#bytes = this.#pool.take();
      this.#at = 0;
    }
    return this.#bytes;
  }

  /** Where the next byte goes. */
  get at(): number {
    return this.#at;
  }

  /** Sets `at` to `end`, after the bytes before `end` were written. */
  advanceTo(end: number): void {
    this.unread += end - this.#at;
    this.#at = end;
  }

  /** Writes a frame with a payload of at most 16 KiB. */
  frame(type: (typeof FrameType)[keyof typeof FrameType], flags: number, streamId: number, payload: Uint8Array): void {
    const into = this.reserve(FRAME_HEAD_BYTES + payload.length);
    const at = writeFrameHead(into, this.#at, payload.length, type, flags, streamId);
    into.set(payload, at);
    this.advanceTo(at + payload.length);
  }

  /** Hands full chunks to the socket; the last one too, unless the socket is behind. */
  flush(): void {
    const last = this.#bytes;
    if (last === undefined || this.#isClosed) return;
    const isBehind = this.#handed.length > 0;
    if (this.#full.length === 0) {
      if (!isBehind) this.#handRest(last);
      return;
    }
    const full = this.#full;
    this.#full = [];
    this.#socket.cork();
    for (const chunk of full) this.#hand(chunk);
    if (!isBehind) this.#handRest(last);
    this.#socket.uncork();
  }

  /** Hands everything to the socket; to be called when nothing will follow. */
  flushLast(): void {
    this.flush();
    if (this.#bytes !== undefined && !this.#isClosed) this.#handRest(this.#bytes);
  }

  /** Drops what has not been handed to the socket. Nothing is written from then on. */
  close(): void {
    this.#isClosed = true;
    this.#full = [];
    this.#bytes = undefined;
    this.unread = 0;
  }

  #handRest(chunk: Buffer): void {
    this.#bytes = undefined;
    this.#hand(chunk.subarray(0, this.#at));
  }

  #hand(bytes: Buffer): void {
    this.#handed.push(bytes);
    this.#socket.write(bytes, this.#onWritten);
  }

  // The socket calls back in the order of the writes.
  #written(error: Error | null | undefined, written: () => void): void {
    const bytes = this.#handed.shift();
    // After an error the socket may still use the chunk.
    if (bytes === undefined || error || this.#isClosed) return;
    this.unread -= bytes.length;
    this.#pool.giveBack(Buffer.from(bytes.buffer, 0, CHUNK_BYTES));
    if (this.#handed.length === 0) this.flush();
    written();
  }
}

/** Writes the nine bytes of a frame's head at `at`; returns their end. */
export function writeFrameHead(
  into: Uint8Array,
  at: number,
  length: number,
  type: number,
  flags: number,
  streamId: number,
): number {
  into[at] = length >>> 16;
  into[at + 1] = length >>> 8;
  into[at + 2] = length;
  into[at + 3] = type;
  into[at + 4] = flags;
  into[at + 5] = streamId >>> 24;
  into[at + 6] = streamId >>> 16;
  into[at + 7] = streamId >>> 8;
  into[at + 8] = streamId;
  return at + FRAME_HEAD_BYTES;
}

/** Since when some of the bytes may have been held, of which those that came first go first. */
export class HeldSince {
  bytes = 0;
  /** All that came before this time has gone. */
  sinceUs = 0;
  /** What is still there of the bytes that were there at `#markedUs`. */
  #marked = 0;
  #markedUs = 0;

  /** Notes how many bytes there are now: more came, or some went. */
  set(bytes: number, nowUs: number): void {
    const gone = this.bytes - bytes;
    if (gone > 0) this.#marked -= gone;
    if (this.#marked <= 0) {
      this.sinceUs = this.bytes === 0 ? nowUs : this.#markedUs;
      this.#markedUs = nowUs;
      this.#marked = bytes;
    }
    this.bytes = bytes;
  }
}
