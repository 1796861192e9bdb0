// Text of callers where it becomes a label or a name: bounded in bytes, and still one text for each.

import { hash } from "node:crypto";

/** Longest text of a caller that is a label as it is, in bytes: API keys and paths fit, and a page of them stays readable. */
export const SHOWN_BYTES_MAX = 128;
const DIGEST_CHARS = 16;

/**
 * The text, or of a longer one its beginning, a tilde, and the first 64 bits of its SHA-256, in `bytesMax` bytes: two long
 * texts that differ at their ends stay two. One-byte text (core/request.ts), cut between characters of UTF-8.
 */
export function shortText(oneByte: string, bytesMax = SHOWN_BYTES_MAX): string {
  if (oneByte.length <= bytesMax) return oneByte;
  let end = bytesMax - DIGEST_CHARS - 1;
  while (end > 0 && isContinuation(oneByte.charCodeAt(end))) end--;
  const digest = hash("sha256", Buffer.from(oneByte, "latin1"), "hex").slice(0, DIGEST_CHARS);
  return `${oneByte.slice(0, end)}~${digest}`;
}

function isContinuation(byte: number): boolean {
  return (byte & 0xc0) === 0x80;
}
