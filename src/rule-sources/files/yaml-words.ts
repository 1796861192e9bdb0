// Rewords the commonest errors of the YAML parser for authors of rule files, and finds the place that must change.
// Rarer ones keep the parser's own words.

import { Lexer } from "yaml";

/** An error in words for people. */
interface Worded {
  readonly message: string;
  readonly suggestion: string;
  /** Where the mistake is, as far as that is known. */
  readonly offset: number;
}

type Wording = (text: string, offset: number) => Worded;

const GENERAL_HINT = "Check the indentation, the quotes and the brackets.";
const COMMA_HINT = "Separate items in { } and [ ] by commas.";
/** Most characters of a line that are read. */
const LINE_CHARS_MAX = 10_000;
const SHOWN_CHARS_MAX = 60;

/** Rewords an error in `text` that the parser noticed at `offset`. */
export function wordComplaint(text: string, message: string, offset: number): Worded {
  const colon = missingColon(text, offset);
  if (colon !== undefined) return colon;
  for (const [pattern, word] of WORDINGS) if (pattern.test(message)) return word(text, offset);
  return said(parserWords(message), GENERAL_HINT, offset);
}

/** The parser's own message, as the message of a problem. */
export function parserWords(message: string): string {
  return `YAML: ${message.charAt(0).toLowerCase()}${message.slice(1)}`;
}

const WORDINGS: readonly (readonly [RegExp, Wording])[] = [
  [/^Tabs are not allowed as indentation/, always("a tab can't indent a line", "Use spaces.")],
  [/^Missing , /, always("a comma is missing before this", COMMA_HINT)],
  [/^Block collections are not allowed within flow|^Unexpected scalar token/, missingComma],
  [/^Implicit (?:map )?keys need to be/, brokenKey],
  [/^Nested mappings are not allowed in compact mappings/, nested],
  [/^Missing closing/, always("this quote is not closed", "Close it on the same line.")],
  [/must be sufficiently indented and end with a|^Expected flow (?:map|sequence) to end with/, unclosed],
  [/^Flow (?:map|sequence) in block collection/, unclosed],
  [
    /^Sequence item without - indicator|^All (?:mapping|sequence) items must start at the same column/,
    always(
      "this line's indentation matches no line above it",
      "Align it with the other keys, or the other '- ', of the same level.",
    ),
  ],
  [/^Plain value cannot start with/, always("text that begins with this sign needs quotes", "Put it in quotes.")],
];

function always(message: string, suggestion: string): Wording {
  return (_, offset) => said(message, suggestion, offset);
}

function said(message: string, suggestion: string, offset: number): Worded {
  return { message, suggestion, offset };
}

// For `{ unit: second burst: 5 }` the parser takes `second burst` for a key.
function missingComma(text: string, offset: number): Worded {
  const key = /^(?:[^,:{}[\]]*[ \t])?([^\s,:{}[\]]+):(?=[ \t]|$)/.exec(restOfLine(text, offset));
  if (key?.[1] === undefined) return said("a comma, a quote or a bracket is missing before this", GENERAL_HINT, offset);
  return said(`a comma is missing before '${key[1]}'`, COMMA_HINT, offset + key[0].length - key[1].length - 1);
}

function brokenKey(text: string, offset: number): Worded {
  const written = restOfLine(text, offset).trimEnd();
  const glued = /^([^\s:]+):\S/.exec(written);
  if (glued?.[1] !== undefined) {
    const hint = `Write '${glued[1]}: ${written.slice(glued[1].length + 1)}'.`;
    return said(`a space is missing after '${glued[1]}:'`, hint, offset);
  }
  if (openBracketAt(text, offset) !== undefined) {
    return said("a comma is missing at the end of this line", COMMA_HINT, offset);
  }
  const [first = ""] = written.split(/\s/);
  return said(`expected 'key: value', got '${cut(written)}'`, `Put a colon and a space after '${cut(first)}'.`, offset);
}

// For `rate_limit { unit: day }` the parser may report any place after the bracket.
function missingColon(text: string, offset: number): Worded | undefined {
  const start = text.lastIndexOf("\n", offset - 1) + 1;
  const line = restOfLine(text, start);
  const [indent = "", key] = /^( *(?:- +)*)([A-Za-z_][\w-]*)(?=[ \t]+[{[])/.exec(line)?.slice(1) ?? [];
  if (key === undefined) return undefined;
  const message = `expected 'key: value', got '${cut(line.slice(indent.length).trimEnd())}'`;
  return said(message, `Put a colon and a space after '${key}'.`, start + indent.length);
}

function nested(text: string, offset: number): Worded {
  if (/:(?:[ \t]|$)/.test(restOfLine(text, offset))) {
    return said("this value contains a colon and a space, like a key", "Put it in quotes.", offset);
  }
  const blank = /^.*\s*/.exec(text.slice(offset, offset + LINE_CHARS_MAX))?.[0].length ?? 0;
  const message = "this line is indented deeper than the one above, which already has a value";
  return said(message, "Align it with the key above.", Math.min(offset + blank, text.length - 1));
}

function unclosed(text: string, offset: number): Worded {
  const at = openBracketAt(text, offset);
  if (at === undefined) return said("a bracket is not closed", GENERAL_HINT, offset);
  const [open, close] = text[at] === "{" ? "{}" : "[]";
  return said(`this ${open} is not closed`, `Add ${close} where it ends.`, at);
}

/** Pieces that the lexer inserts (document, flow error end, scalar follows); they are no part of the text. */
const LEXER_MARKS: readonly string[] = ["\u0002", "\u0018", "\u001f"];

/** The innermost bracket that is open before an offset. */
function openBracketAt(text: string, offset: number): number | undefined {
  const open: number[] = [];
  let at = 0;
  for (const piece of new Lexer().lex(text)) {
    if (LEXER_MARKS.includes(piece)) continue;
    if (at >= offset) break;
    if (piece === "{" || piece === "[") open.push(at);
    else if (piece === "}" || piece === "]") open.pop();
    at += piece.length;
  }
  return open.at(-1);
}

function restOfLine(text: string, offset: number): string {
  return /^[^\r\n]*/.exec(text.slice(offset, offset + LINE_CHARS_MAX))?.[0] ?? "";
}

function cut(text: string): string {
  return text.length > SHOWN_CHARS_MAX ? `${text.slice(0, SHOWN_CHARS_MAX - 3)}...` : text;
}
