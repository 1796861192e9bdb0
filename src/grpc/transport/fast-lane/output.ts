// The output of one socket: frames are written into chunks, which are handed to the socket once a turn. A chunk belongs to the socket
// until the socket calls back, and is reused only after that. While the socket is behind, only full chunks are handed over: otherwise a
// peer that reads slowly would hold a whole chunk for every few bytes.

import type { Socket } from "node:net";
import { FRAME_HEAD_BYTES, type FrameType } from "./protocol.ts";

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
