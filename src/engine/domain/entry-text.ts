// Descriptors as they are typed at terminals, in options and in case files: key=value,key2=value2.

import type { WrittenEntry } from "./request.ts";

/** A character, or what a backslash and the characters after it mean. */
const PIECE = /\\(?:[\\,]|x[0-9a-fA-F]{2})|[\s\S]/gu;

/**
 * Reads `key=value,key2=value2`; the first = of an entry divides it. `\,` is a comma, `\\` a backslash, and `\xff` in a
 * value that byte. A string says what is wrong.
 */
export function readTyped(text: string): readonly WrittenEntry[] | string {
  const parts: string[][] = [[]];
  for (const [piece] of text.matchAll(PIECE)) {
    if (piece === ",") parts.push([]);
    else parts.at(-1)?.push(piece);
  }
  const entries: WrittenEntry[] = [];
  for (const part of parts) {
    const at = part.indexOf("=");
    if (at < 1) return `expected key=value,key2=value2, got '${text}'`;
    const key = part.slice(0, at);
    if (key.some((piece) => piece.startsWith("\\x"))) return `expected bytes as \\xff in values only, got '${text}'`;
    entries.push(entryOf(bytesOf(key).toString(), bytesOf(part.slice(at + 1))));
  }
  return entries;
}

/** The entries as they would be typed, with bytes that are no text as U+FFFD. */
export function typedText(entries: readonly WrittenEntry[]): string {
  return entries.map(({ key, value }) => `${escaped(key)}=${escaped(value)}`).join(",");
}

function escaped(text: string): string {
  return text.replace(/[\\,]/g, "\\$&");
}

/** A value that is probably two, because a blank was typed for a comma. */
const TWO_ENTRIES = /^(.*?)[ \t]+([\w.-]+=.*)$/s;

/**
 * Says which entry was probably meant otherwise, because a blank was typed for a comma or next to one; undefined if
 * none was.
 */
export function doubtOf(entries: readonly WrittenEntry[]): string | undefined {
  for (const { key, value } of entries) {
    if (key.trim() !== key) {
      return `the key '${key}' begins or ends with a blank; expected key=value,key2=value2, without blanks`;
    }
    const [, first, second] = TWO_ENTRIES.exec(value) ?? [];
    if (first === undefined) continue;
    return `the value '${value}' of '${key}' looks like two entries; commas separate entries: ${key}=${first},${second}`;
  }
  return undefined;
}

function bytesOf(pieces: readonly string[]): Buffer {
  return Buffer.concat(
    pieces.map((piece) => {
      if (piece.length === 1 || !piece.startsWith("\\")) return Buffer.from(piece);
      return piece.startsWith("\\x") ? Buffer.from(piece.slice(2), "hex") : Buffer.from(piece.slice(1));
    }),
  );
}

function entryOf(key: string, bytes: Buffer): WrittenEntry {
  const value = bytes.toString();
  return Buffer.from(value).equals(bytes) ? { key, value } : { key, value, valueBase64: bytes.toString("base64") };
}
