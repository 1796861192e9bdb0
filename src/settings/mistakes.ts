// Sentences of mistakes that several settings share.

import { accessSync, constants } from "node:fs";
import { errorCode } from "../base/thrown.ts";

/** Text that looks like a key or certificate: PEM, or its base64 alone. */
const KEY_LIKE = /-----BEGIN|[A-Za-z0-9+]{100}|^M[A-Za-z][A-Za-z0-9+/=]{40}/;

const UNREADABLE: Readonly<Record<string, string>> = {
  ENOENT: "it does not exist",
  ENOTDIR: "a part of the path is not a directory",
  EACCES: "this user may not read it",
};

/** Text in quotes, cut if long. Text that looks like a secret in the wrong setting is not shown. */
export function quotedUnlessSecret(text: string): string {
  if (KEY_LIKE.test(text)) return `something else (${text.length} characters, not shown)`;
  return JSON.stringify(text.length > 80 ? `${text.slice(0, 80)}...` : text);
}

/** Adds a mistake if this process can't read the file. */
export function checkReadable(name: string, path: string, mistakes: string[]): void {
  try {
    accessSync(path, constants.R_OK);
  } catch (cause) {
    const code = errorCode(cause) ?? String(cause);
    mistakes.push(`${name}: expected a readable file, got ${quotedUnlessSecret(path)}: ${UNREADABLE[code] ?? code}`);
  }
}

/** Adds a mistake if only one of two settings is given, such as a certificate without its key. */
export function checkBoth(names: string, one: unknown, other: unknown, mistakes: string[]): void {
  if ((one === undefined) !== (other === undefined)) mistakes.push(`${names}: expected both or neither, got one`);
}

/** Adds a mistake if more than one of the settings gives the same thing. */
export function checkOne(
  what: string,
  given: Readonly<Record<string, string | object | undefined>>,
  mistakes: string[],
): void {
  const names = Object.keys(given).filter((name) => given[name] !== undefined);
  if (names.length > 1)
    mistakes.push(`${names.join(", ")}: expected the ${what} in only one of them, got it in ${names.length}`);
}
