// The lines of rule files that problems are about, with a caret under the place.

import { readFile } from "node:fs/promises";
import { visible } from "../../engine/base/visible.ts";
import type { Place } from "../../engine/rules/source.ts";
import { paint, type Terminal } from "./terminal.ts";

/** Width of the line number, in columns. */
const MARGIN = "      | ";
/** How many characters of a long line are shown before the place. */
const BEFORE_MAX = 30;

/** Shows places in files. Reads each file once. */
export class Excerpts {
  readonly #terminal: Terminal;
  readonly #lines = new Map<string, readonly string[]>();

  /** `file`: one that was read before. */
  constructor(terminal: Terminal, file?: { readonly name: string; readonly bytes: Buffer }) {
    this.#terminal = terminal;
    if (file !== undefined) this.#lines.set(file.name, linesOf(file.bytes));
  }

  /** Two lines: the place's line, and a caret below it. Empty if the file has no such line. */
  async of({ file, line, column }: Place): Promise<string> {
    const text = (await this.#linesOf(file))[line - 1];
    if (text === undefined || text.trim() === "") return "";
    const width = this.#terminal.columns - MARGIN.length;
    const isLong = visible(text).length > width;
    const from = isLong ? Math.max(0, column - 1 - BEFORE_MAX) : 0;
    // A tab becomes one column, so that the caret is below the right letter.
    const show = (part: string) => visible(part.replaceAll("\t", " "));
    const before = show(text.slice(from, column - 1));
    const shown = `${before}${show(text.slice(column - 1))}`.slice(0, width);
    const number = String(line).padStart(MARGIN.length - 3);
    const dim = (part: string) => paint(this.#terminal, "dim", part);
    const caret = paint(this.#terminal, "cyan", "^");
    return `${dim(`${number} | `)}${shown}\n${dim(MARGIN)}${" ".repeat(Math.min(before.length, width - 1))}${caret}\n`;
  }

  async #linesOf(file: string): Promise<readonly string[]> {
    const known = this.#lines.get(file);
    if (known !== undefined) return known;
    // The problem itself says that a file can't be read.
    const lines = linesOf(await readFile(file).catch(() => Buffer.alloc(0)));
    this.#lines.set(file, lines);
    return lines;
  }
}

function linesOf(bytes: Buffer): readonly string[] {
  const encoding =
    bytes[0] === 0xff && bytes[1] === 0xfe ? "utf-16le" : bytes[0] === 0xfe && bytes[1] === 0xff ? "utf-16be" : "utf-8";
  // Removes a byte order mark, as the parser does.
  return new TextDecoder(encoding).decode(bytes).split(/\r\n|\r|\n/);
}
