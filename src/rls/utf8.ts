// Tells whether bytes are UTF-8. Most of them are short and ASCII, so that is looked at first.

import { isUtf8 } from "node:buffer";

// Up to here a loop is quicker than a view of the bytes and a call out of JavaScript (bench/micro/codec.mjs).
const LOOP_BYTES_MAX = 128;

/** True if the bytes from `start` up to `end` are UTF-8 without overlong forms and surrogates. */
export function isUtf8At(bytes: Buffer, start: number, end: number): boolean {
  if (end - start <= LOOP_BYTES_MAX) {
    let seen = 0;
    for (let i = start; i < end; i++) seen |= bytes[i] as number;
    if (seen < 0x80) return true;
  }
  return isUtf8(bytes.subarray(start, end));
}
