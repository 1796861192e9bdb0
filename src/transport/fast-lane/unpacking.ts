// Unpacks compressed messages beside the calls, in the threads that Node keeps for it, within a bound on all that is being
// unpacked at once. Room is reserved before the first byte is unpacked: some 4 KB may stand for 4 MB.

import { gunzip, inflate } from "node:zlib";
import { errorCode } from "../../core/thrown.ts";

/** Encodings that are unpacked; grpc-js knows the same. */
export type Encoding = "gzip" | "deflate";

/** What a message needs beside itself: the window and the state of zlib. */
const STATE_BYTES = 65_536;
/** A gzip message ends with the length of what it holds. */
const GZIP_LENGTH_BYTES = 4;
/** What it begins with, as a number. */
const GZIP_MAGIC = 0x1f8b;
/** zlib asks for another piece when one is exactly full. */
const SLACK_BYTES = 64;

/** Why a message was not unpacked. */
export type Refusal = "too long" | "no room" | "damaged";

export class Unpacking {
  readonly #bytesMax: number;
  /** Bytes reserved now. */
  bytes = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /**
   * Calls `done` once, on a later turn, with the message or why there is none; returns a refusal at once if it is known
   * by then. `packed` must stay as it is until then.
   */
  unpack(
    packed: Buffer,
    encoding: Encoding,
    lengthMax: number,
    done: (message: Buffer | Refusal) => void,
  ): Refusal | undefined {
    const length = encoding === "gzip" ? lengthOfGzip(packed) : lengthMax;
    if (length === undefined) return "damaged";
    if (length > lengthMax) return "too long";
    const room = length + packed.length + STATE_BYTES;
    if (this.bytes + room > this.#bytesMax) return "no room";
    this.bytes += room;
    // In one piece, for pieces would have to be joined in as much memory again.
    const options = { maxOutputLength: Math.max(length, 1), chunkSize: Math.min(length, lengthMax) + SLACK_BYTES };
    (encoding === "gzip" ? gunzip : inflate)(packed, options, (error, message) => {
      this.bytes -= room;
      if (error === null) done(message);
      else done(errorCode(error) === "ERR_BUFFER_TOO_LARGE" ? "too long" : "damaged");
    });
    return undefined;
  }
}

// One that lies is found out: more than it says is not unpacked. A message of several gzip members says the length of the
// last one only, and is refused; no gRPC library sends them.
function lengthOfGzip(packed: Buffer): number | undefined {
  if (packed.length < GZIP_LENGTH_BYTES || packed.readUInt16BE(0) !== GZIP_MAGIC) return undefined;
  return packed.readUInt32LE(packed.length - GZIP_LENGTH_BYTES);
}
