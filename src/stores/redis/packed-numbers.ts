// The form of numbers in scripts' arguments and replies: doubles in a row, least significant byte first. A double holds every whole number
// below 2^53, and neither side has to write or parse digits.

import { endianness } from "node:os";

const BYTES = Float64Array.BYTES_PER_ELEMENT;
const IS_BIG_ENDIAN = endianness() === "BE";

/** The numbers as one-byte text. */
export function packNumbers(numbers: readonly number[]): string {
  const bytes = Buffer.from(Float64Array.from(numbers).buffer);
  if (IS_BIG_ENDIAN) bytes.swap64();
  return bytes.toString("latin1");
}

/** The numbers of a packed reply; undefined if the reply has another form. */
export function unpackNumbers(reply: unknown): readonly number[] | undefined {
  if (!Buffer.isBuffer(reply) || reply.length % BYTES !== 0) return undefined;
  // Copied, because a Float64Array has to begin at a multiple of eight bytes.
  const numbers = new Float64Array(reply.length / BYTES);
  const bytes = Buffer.from(numbers.buffer);
  reply.copy(bytes);
  if (IS_BIG_ENDIAN) bytes.swap64();
  return Array.from(numbers);
}
