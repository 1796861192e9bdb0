// Keeps what callers sent out of reports: values of entries, and text that answers repeat, are left out, hashed or,
// when somebody asked for it, shown.

import { createHmac, randomBytes } from "node:crypto";
import type { ShownDescriptor } from "./answer.ts";

export const VALUE_MODES = ["hide", "hash", "show"] as const;
export type ValueMode = (typeof VALUE_MODES)[number];

const TEXT_CHARS_MAX = 200;
const HASH_CHARS = 10;

/** Makes values fit to be shown. */
export class ValueGuard {
  readonly #mode: ValueMode;
  // Of this run only, so that nobody can try out values against a report.
  readonly #hashKey = randomBytes(32);

  constructor(mode: ValueMode) {
    this.#mode = mode;
  }

  /** An entry as `key=value`, with the value as the mode has it. */
  entryText({ key, value }: ShownDescriptor["entries"][number]): string {
    return this.#mode === "hide" ? short(key) : `${short(key)}=${this.#text(value)}`;
  }

  /** A leaf of metadata: numbers and the like as they are, text as the mode has it. */
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

function short(text: string): string {
  return text.length <= TEXT_CHARS_MAX ? text : `${text.slice(0, TEXT_CHARS_MAX - 3)}...`;
}
