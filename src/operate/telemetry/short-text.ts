// Shortens callers' texts for labels and names: bounded in bytes, and different for different texts.

import { hash } from "node:crypto";

/** Longest text of a caller in a label, in bytes: API keys and paths fit, and a page of labels stays readable. */
export const SHOWN_BYTES_MAX = 128;
const DIGEST_CHARS = 16;

/**
 * The text, if it has at most `bytesMax` bytes; otherwise its beginning, a tilde, and the first 64 bits of its SHA-256,
 * together at most `bytesMax` bytes, so that long texts that differ at their ends stay different. Takes and returns
 * one-byte text (engine/domain/request.ts), cut between characters of UTF-8.
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
