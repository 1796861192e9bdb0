// Finds text that the reference's parser refuses and the yaml package accepts: control characters, tabs as indentation, unknown
// directives.

import { Lexer } from "yaml";
import { makeProblem } from "../../engine/rules/problems.ts";
import type { Problem } from "../../engine/rules/rule-set.ts";
import type { Place } from "../../engine/rules/source.ts";

/** The first such mistake in the text of a rules file, or undefined. */
export function checkText(file: string, text: string): Problem | undefined {
  const control = text.search(CONTROL);
  if (control >= 0) {
    const code = text.charCodeAt(control).toString(16).padStart(2, "0");
    const message = `a control character (0x${code}) can't stand in YAML`;
    return makeProblem("error", placeInText(file, text, control), message, undefined);
  }
  const tab = findTabIndent(text);
  if (tab !== undefined) {
    return makeProblem("error", placeInText(file, text, tab), "a tab can't indent a line", "Use spaces.");
  }
  const directive = findUnknownDirective(text);
  if (directive === undefined) return undefined;
  const message = "expected no directive but one %YAML 1.1, or %TAG";
  return makeProblem("error", placeInText(file, text, directive), message, "Remove the line.");
}

// Everything but tab, line feed, carriage return, NEL and printable characters. Surrogates are paired, because the bytes were UTF-8.
// biome-ignore lint/suspicious/noControlCharactersInRegex: finding these is the purpose
const CONTROL = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u0084\u0086-\u009f\ufffe\uffff]/;

// Directives come before the first line of content; the yaml package only warns of unknown ones.
function findUnknownDirective(text: string): number | undefined {
  let offset = 0;
  let versions = 0;
  for (const line of text.split("\n", DIRECTIVE_LINES_MAX)) {
    if (/^%YAML[ \t]+1\.1[ \t\r]*(#.*)?$/.test(line)) versions++;
    else if (line.startsWith("%") && !/^%TAG[ \t]/.test(line)) return offset;
    else if (!/^%|^[ \t\r]*(#|$)/.test(line)) return undefined;
    if (versions > 1) return offset;
    offset += line.length + 1;
  }
  return undefined;
}

// The reference refuses a tab before the content of a line outside brackets and quotes, even on an empty line. The lexer returns each
// quoted, plain or block text as one piece.
function findTabIndent(text: string): number | undefined {
  if (!/^ *\t/m.test(text)) return undefined;
  let offset = 0;
  let brackets = 0;
  let isLineStart = true;
  let hasDocument = false;
  for (const piece of new Lexer().lex(text)) {
    brackets += BRACKETS.get(piece) ?? 0;
    if (DOCUMENT_MARKS.has(piece) && hasDocument) return undefined;
    if (isLineStart && brackets === 0 && /^ *\t/.test(piece)) return offset;
    if (LEXER_MARKS.has(piece)) continue;
    if (/[^\s#]/.test(piece[0] ?? " ")) hasDocument = true;
    isLineStart = piece.endsWith("\n") || (isLineStart && /^ *$/.test(piece));
    offset += piece.length;
  }
  return undefined;
}

const BRACKETS: ReadonlyMap<string, number> = new Map([
  ["[", 1],
  ["{", 1],
  ["]", -1],
  ["}", -1],
]);
const DOCUMENT_MARKS: ReadonlySet<string> = new Set(["---", "..."]);

/** Pieces that the lexer inserts (document, flow error end, scalar follows); they are no part of the text. */
export const LEXER_MARKS: ReadonlySet<string> = new Set(["\u0002", "\u0018", "\u001f"]);

const DIRECTIVE_LINES_MAX = 1_000;

function placeInText(file: string, text: string, offset: number): Place {
  const before = text.slice(0, offset).split(/\r\n|\r|\n/);
  return { file, line: before.length, column: (before.at(-1) ?? "").length + 1 };
}
