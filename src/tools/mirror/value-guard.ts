// Keeps callers' values out of reports: values of entries, and text in metadata, are hidden, hashed or, on request, shown.

import { createHmac, randomBytes } from "node:crypto";
import { typedText } from "../../engine/domain/entry-text.ts";
import type { AnswerHeader } from "./answer.ts";

export const VALUE_MODES = ["hide", "hash", "show"] as const;
export type ValueMode = (typeof VALUE_MODES)[number];

const TEXT_CHARS_MAX = 200;
const HASH_CHARS = 10;

/** Hides, hashes or shows values, according to its mode. */
export class ValueGuard {
  readonly #mode: ValueMode;
  // Random for each run, so that nobody can guess values by hashing candidates.
  readonly #hashKey = randomBytes(32);

  constructor(mode: ValueMode) {
    this.#mode = mode;
  }

  /** An entry as it would be typed, with the value hashed or shown, or as `key` alone if values are hidden. */
  entryText({ key, value }: AnswerHeader): string {
    return this.#mode === "hide" ? short(key) : typedText([{ key: short(key), value: this.#text(value) }]);
  }

  /** A leaf of metadata: text according to the mode, other values as they are. */
  leafText(value: unknown): string {
    if (value === undefined) return "none";
    return typeof value === "string" ? this.#text(value) : String(value);
  }

  #text(text: string): string {
    if (this.#mode === "show") return short(text);
    if (this.#mode === "hide") return "(text)";
    return `#${createHmac("sha256", this.#hashKey).update(text).digest("hex").slice(0, HASH_CHARS)}`;
  }
}

/** The text, cut to TEXT_CHARS_MAX characters. */
export function short(text: string): string {
  return text.length <= TEXT_CHARS_MAX ? text : `${text.slice(0, TEXT_CHARS_MAX - 3)}...`;
}
