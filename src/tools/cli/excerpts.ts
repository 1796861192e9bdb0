// The lines of rule files that problems are about, with a caret under the place.

import { readFile } from "node:fs/promises";
import { visible } from "../../base/visible.ts";
import type { Place } from "../../engine/rules/source.ts";
import { paint, type Terminal } from "./terminal.ts";

/** Width of the line number, in columns. */
const MARGIN = "      | ";
/** How many characters of a long line are shown before the place. */
const BEFORE_MAX = 30;

/**
 * Shows places, each as its line and a caret below it; nothing if the file has no such line. Reads each file once;
 * `file` was read before.
 */
export function excerpts(terminal: Terminal, file?: { readonly name: string; readonly bytes: Buffer }) {
  const files = new Map(file === undefined ? [] : [[file.name, linesOf(file.bytes)]]);
  return async ({ file: name, line, column }: Place): Promise<string> => {
    // A file that can't be read is a problem of its own.
    const lines = files.get(name) ?? linesOf(await readFile(name).catch(() => Buffer.alloc(0)));
    files.set(name, lines);
    const text = lines[line - 1];
    if (text === undefined || text.trim() === "") return "";
    const width = terminal.columns - MARGIN.length;
    const isLong = visible(text).length > width;
    const from = isLong ? Math.max(0, column - 1 - BEFORE_MAX) : 0;
    // A tab becomes one column: the caret must be below the right letter.
    const show = (part: string) => visible(part.replaceAll("\t", " "));
    const before = show(text.slice(from, column - 1));
    const shown = `${before}${show(text.slice(column - 1))}`.slice(0, width);
    const number = String(line).padStart(MARGIN.length - 3);
    const dim = (part: string) => paint(terminal, "dim", part);
    const caret = paint(terminal, "cyan", "^");
    return `${dim(`${number} | `)}${shown}\n${dim(MARGIN)}${" ".repeat(Math.min(before.length, width - 1))}${caret}\n`;
  };
}

function linesOf(bytes: Buffer): readonly string[] {
  const encoding =
    bytes[0] === 0xff && bytes[1] === 0xfe ? "utf-16le" : bytes[0] === 0xfe && bytes[1] === 0xff ? "utf-16be" : "utf-8";
  // Removes a byte order mark, as the parser does.
  return new TextDecoder(encoding).decode(bytes).split(/\r\n|\r|\n/);
}
