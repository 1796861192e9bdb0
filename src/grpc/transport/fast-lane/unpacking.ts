// Decompresses messages in the threads that Node keeps for zlib, within a bound on all that are under way. Room is reserved before the
// first byte is decompressed, because 4 KB may decompress to 4 MB.

import { gunzip, inflate } from "node:zlib";
import { errorCode } from "../../../engine/base/thrown.ts";

/** Encodings that are decompressed; the same as in grpc-js. */
export type Encoding = "gzip" | "deflate";

/** Memory for one message besides its bytes: zlib's window and state. */
const STATE_BYTES = 65_536;
/** The last bytes of a gzip message, which hold its decompressed length. */
const GZIP_LENGTH_BYTES = 4;
/** The first two bytes of a gzip message, big-endian. */
const GZIP_MAGIC = 0x1f8b;
/** zlib asks for another chunk when one is exactly full. */
const SLACK_BYTES = 64;

/** Why a message was not decompressed. */
export type Refusal = "too long" | "no room" | "damaged";

export class Unpacking {
  readonly #bytesMax: number;
  /** Bytes reserved now. */
  bytes = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /**
   * Calls `done` once, in a later turn, with the message or with the reason why there is none; a reason that is known at once is returned
   * instead. `packed` must stay unchanged until then. `lengthMax`: longest message, in bytes.
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
    // One chunk for the whole message: several would have to be joined in as much memory again.
    const options = { maxOutputLength: Math.max(length, 1), chunkSize: Math.min(length, lengthMax) + SLACK_BYTES };
    (encoding === "gzip" ? gunzip : inflate)(packed, options, (error, message) => {
      this.bytes -= room;
      if (error === null) done(message);
      else done(errorCode(error) === "ERR_BUFFER_TOO_LARGE" ? "too long" : "damaged");
    });
    return undefined;
  }
}

// A wrong length is noticed, because no more than it is decompressed. For a message of several gzip members only the last length is
// read, and such a message is refused; no gRPC library sends them.
function lengthOfGzip(packed: Buffer): number | undefined {
  if (packed.length < GZIP_LENGTH_BYTES || packed.readUInt16BE(0) !== GZIP_MAGIC) return undefined;
  return packed.readUInt32LE(packed.length - GZIP_LENGTH_BYTES);
}
