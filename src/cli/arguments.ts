// Entries and descriptors as they are typed: key=value, and key=value,key2=value2.

import { InvalidArgumentError } from "commander";
import { BYTE_ESCAPES, BYTE_MARK, splitAtCommas } from "../core/entry-text.ts";

/** An entry as typed. */
export interface TypedEntry {
  readonly key: string;
  readonly value: string;
}

/** Reads `key=value`; the first = divides, so values may hold more of them. `key` alone has the empty value. */
export function parseEntry(text: string): TypedEntry {
  const at = text.indexOf("=");
  const key = at < 0 ? text : text.slice(0, at);
  if (key === "") throw new InvalidArgumentError(`Expected key=value, got '${text}'.`);
  return { key, value: at < 0 ? "" : text.slice(at + 1) };
}

/** Reads `key=value,key2=value2`; `\,` is a comma and `\\` a backslash inside a value. The empty text has no entries. */
export function parseDescriptor(text: string): readonly TypedEntry[] {
  return text === "" ? [] : splitAtCommas(text).map(parseEntry);
}

/** An entry. A value that is no text is given as base64. */
export type ByteEntry = TypedEntry | { readonly key: string; readonly value_base64: string };

/** Reads what `parseDescriptor` reads, and `\xff` in a value as that byte (`\\xff` is the text). */
export function parseByteDescriptor(text: string): readonly ByteEntry[] {
  const parts = text === "" ? [] : splitAtCommas(text, BYTE_ESCAPES);
  return parts.map((part) => {
    const { key, value } = parseEntry(part);
    if (key.includes(BYTE_MARK))
      throw new InvalidArgumentError(`Expected bytes as \\xff in values only, got '${text}'.`);
    const [first = "", ...others] = value.split(BYTE_MARK);
    if (others.length === 0) return { key, value };
    const pieces = others.map((piece) => [Buffer.from(piece.slice(0, 2), "hex"), Buffer.from(piece.slice(2))]);
    const bytes = Buffer.concat([Buffer.from(first), ...pieces.flat()]);
    const shown = bytes.toString();
    return Buffer.from(shown).equals(bytes) ? { key, value: shown } : { key, value_base64: bytes.toString("base64") };
  });
}

/** For options that repeat. */
export function collect<T>(
  parse: (text: string) => T,
): (text: string, before: readonly T[] | undefined) => readonly T[] {
  return (text, before = []) => [...before, parse(text)];
}

/** A whole number within bounds, for options. */
export function parseWhole(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
    if (value >= min && value <= max) return value;
    throw new InvalidArgumentError(`Expected a whole number from ${min} to ${max}.`);
  };
}
