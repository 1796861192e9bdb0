// Entries and descriptors as they are typed: key=value, and key=value,key2=value2.

import { InvalidArgumentError } from "commander";

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

function splitAtCommas(text: string): string[] {
  const parts = [""];
  for (let i = 0; i < text.length; i++) {
    const char = text[i] ?? "";
    const next = text[i + 1];
    if (char === "\\" && (next === "," || next === "\\")) {
      parts.push(`${parts.pop() ?? ""}${next}`);
      i++;
    } else if (char === ",") parts.push("");
    else parts.push(`${parts.pop() ?? ""}${char}`);
  }
  return parts;
}
