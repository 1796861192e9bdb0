// The code that is explored: a copy of `src` whose private fields can be read, because a fingerprint has to say all that a state is; with
// changes, such as one fault, if a test asks for them.

import { cpSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { temporaryFolder } from "../support/temporary-folder.ts";

const SRC = resolve(import.meta.dirname, "../../src");
/** What the explored code imports, in folders of src. */
const NEEDED = ["base", "settings", "engine", "stores"];
/** The `#` of a private name. */
const PRIVATE = /(?<=[\s.(!{])#(?=[a-z]\w*\b)/g;

/** A text of a file, and what takes its place: a fault, or a smaller table. */
export interface Change {
  readonly file: string;
  readonly text: string;
  readonly by: string;
}

/** Imports a file of src: a private `#field` is a public `$field`. */
export type Load = <Module>(file: string) => Promise<Module>;

/** The code of `src` with these changes. Throws if the text of one isn't there exactly once. */
export function codeOf(changes: readonly Change[]): Load {
  const copy = join(temporaryFolder("headgate-explored"), "src");
  mkdirSync(copy);
  for (const folder of NEEDED) cpSync(join(SRC, folder), join(copy, folder), { recursive: true });
  for (const file of readdirSync(copy, { recursive: true, encoding: "utf8" })) {
    if (!file.endsWith(".ts")) continue;
    let text = readFileSync(join(copy, file), "utf8");
    for (const change of changes) if (change.file === file) text = changed(text, change);
    writeFileSync(join(copy, file), text.replace(PRIVATE, "$"));
  }
  return (file) => import(/* @vite-ignore */ join(copy, file));
}

function changed(code: string, { file, text, by }: Change): string {
  const parts = code.split(text);
  if (parts.length !== 2) throw new Error(`${file}: expected ${text} once, found ${parts.length - 1}`);
  return parts.join(by);
}
