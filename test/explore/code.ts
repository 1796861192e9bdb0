// The code that is explored: a copy of files of `src` whose private fields can be read, because a fingerprint has to say all that a state is;
// with changes, such as one fault, if a test asks for them.

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { temporaryFolder } from "../support/temporary-folder.ts";

const SRC = resolve(import.meta.dirname, "../../src");
/** The `#` of a private name. */
const PRIVATE = /(?<=[\s.(!{])#(?=[a-z]\w*\b)/g;
const IMPORTED = /\bfrom "(\.[^"]+)"/g;

/** A text of a file of src, and what takes its place: a fault, or a smaller table. */
export interface Change {
  readonly file: string;
  readonly text: string;
  readonly by: string;
}

/** Imports a file of src: a private `#field` is a public `$field`. */
export type Load = <Module>(file: string) => Promise<Module>;

/** The code of `src` with these changes. `load` throws if the text of one isn't there exactly once. */
export function codeOf(changes: readonly Change[]): Load {
  const folder = temporaryFolder("headgate-explored");
  const copied = new Set<string>();
  const copy = (file: string): void => {
    if (copied.has(file)) return;
    copied.add(file);
    let text = readFileSync(join(SRC, file), "utf8");
    for (const change of changes) if (change.file === file) text = changed(text, change);
    mkdirSync(dirname(join(folder, file)), { recursive: true });
    writeFileSync(join(folder, file), text.replace(PRIVATE, "$"));
    for (const [, path = ""] of text.matchAll(IMPORTED)) copy(join(dirname(file), path));
  };
  return (file) => {
    copy(file);
    return import(/* @vite-ignore */ join(folder, file));
  };
}

function changed(code: string, { file, text, by }: Change): string {
  const parts = code.split(text);
  if (parts.length !== 2) throw new Error(`${file}: expected ${text} once, found ${parts.length - 1}`);
  return parts.join(by);
}
