// The form of numbers in scripts' arguments and replies: doubles in a row, least significant byte first. A double holds every whole number
// below 2^53, and neither side has to write or parse digits.

import { endianness } from "node:os";

const BYTES = Float64Array.BYTES_PER_ELEMENT;
const IS_BIG_ENDIAN = endianness() === "BE";

/** Longer replies are none of a script's, whose longest have some ten thousand numbers. */
const REPLY_NUMBERS_MAX = 131_072;

/** Where numbers turn into bytes and back. Both ways end before another call begins, so one place serves all; it grows as needed. */
let doubles = new Float64Array(1_024);
let bytes = Buffer.from(doubles.buffer);

/** The numbers as one-byte text. */
export function packNumbers(numbers: readonly number[]): string {
  const count = numbers.length;
  makeRoomFor(count);
  // Copied one by one: Float64Array.from and Array.from take ten times as long (bench/micro/packed-numbers.mjs).
  for (let i = 0; i < count; i++) doubles[i] = numbers[i] as number;
  swapIfNeeded(count);
  return bytes.latin1Slice(0, count * BYTES);
}

/** The numbers of a packed reply; undefined if the reply has another form or is longer than any of ours. */
export function unpackNumbers(reply: unknown): readonly number[] | undefined {
  if (!Buffer.isBuffer(reply) || reply.length % BYTES !== 0) return undefined;
  const count = reply.length / BYTES;
  if (count > REPLY_NUMBERS_MAX) return undefined;
  makeRoomFor(count);
  reply.copy(bytes);
  swapIfNeeded(count);
  const numbers: number[] = [];
  for (let i = 0; i < count; i++) numbers.push(doubles[i] as number);
  return numbers;
}

function makeRoomFor(count: number): void {
  if (count <= doubles.length) return;
  doubles = new Float64Array(2 * count);
  bytes = Buffer.from(doubles.buffer);
}

function swapIfNeeded(count: number): void {
  if (IS_BIG_ENDIAN) bytes.subarray(0, count * BYTES).swap64();
}
