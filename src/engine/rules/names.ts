// Text that rule files choose, for places where not every character is allowed: others become % and two hex digits.

import { textOf } from "../domain/request.ts";
import type { ProblemLog } from "./problems.ts";
import type { Place } from "./source.ts";

// % itself is not one of them, so different names stay different.
const UNSAFE = /[^A-Za-z0-9_.:/-]/g;
// biome-ignore lint/suspicious/noControlCharactersInRegex: finding these is the purpose
const CONTROL = /[\u0000-\u001f\u007f]/g;

/** A limit's name, for headers, keys and labels. One-byte. */
export function safeName(name: string): string {
  return name.replace(UNSAFE, hexOf);
}

/** Text for metadata, logs and pages, which a line feed must not break. */
export function printable(text: string): string {
  return text.replace(CONTROL, hexOf);
}

/** Warns of a name that is not shown as it is written. */
export function warnUnsafe(name: string, at: Place, log: ProblemLog): void {
  const safe = safeName(name);
  if (safe === name) return;
  const message = `name ${JSON.stringify(textOf(name))} has characters that are unsafe in headers; it is shown as '${safe}'`;
  log.warn(at, message, "Use letters, digits and _ . : / - only.");
}

function hexOf(char: string): string {
  return `%${char.charCodeAt(0).toString(16).padStart(2, "0")}`;
}
