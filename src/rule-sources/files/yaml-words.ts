// Rewords errors of the YAML parser for authors of rule files, and finds the place that must change.

import { Lexer } from "yaml";

/** An error in words for people. */
interface Worded {
  readonly message: string;
  readonly suggestion: string;
  /** Where the mistake is, as far as that is known. */
  readonly offset: number;
}

const GENERAL_HINT = "Check the indentation, the quotes and the brackets.";
const COMMA_HINT = "Separate items in { } and [ ] by commas.";
const ENDED = "this follows a value that has already ended";

/** Rewords an error in `text` that the parser noticed at `offset`. An unknown error keeps the parser's own words. */
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

type Wording = (text: string, offset: number) => Worded;

const WORDINGS: readonly (readonly [RegExp, Wording])[] = [
  [/^Block collections are not allowed within flow/, inBrackets],
  [/^Tabs are not allowed as indentation/, always("a tab can't indent a line", "Use spaces.")],
  [/^Missing , /, always("a comma is missing before this", "Put a comma between them.")],
  [/^Implicit keys need to be on a single line/, brokenKey],
  [/^Implicit map keys need to be followed by map values/, brokenKey],
  [/^Unexpected scalar token/, unexpectedText],
  [/^Nested mappings are not allowed in compact mappings/, nested],
  [/must be sufficiently indented and end with a/, unclosed],
  [/^Flow (?:map|sequence) in block collection/, unclosed],
  [/^Expected flow (?:map|sequence) to end with/, unclosed],
  [/^Missing closing/, unclosedQuote],
  [/^Unexpected flow-(?:map|seq)-end token/, unopened],
  [/^Unexpected , in/, always("this comma has nothing before it", "Remove it.")],
  [/^Unexpected scalar at node end/, always(ENDED, "Put quotes around the whole value, or a comma between two.")],
  [/^Sequence item without - indicator|^All (?:mapping|sequence) items must start at the same column/, misplaced],
  [/^A block sequence may not be used as an implicit map key/, listAmongKeys],
  [/^Plain value cannot start with/, needsQuotes],
  [/^(?:Alias|Anchor) cannot be an empty string/, needsQuotes],
  [/^Invalid escape sequence/, badEscape],
];

function always(message: string, suggestion: string): Wording {
  return (_, offset) => said(message, suggestion, offset);
}

function said(message: string, suggestion: string, offset: number): Worded {
  return { message, suggestion, offset };
}

// For `{ unit: second burst: 5 }` the parser takes `second burst` for a key.
function inBrackets(text: string, offset: number): Worded {
  const inLine = restOfLine(text, offset);
  const key = /^[^,:{}[\]]*[ \t]([^\s,:{}[\]]+):(?=[ \t]|$)/.exec(inLine);
  if (key?.[1] === undefined)
    return said("inside { } or [ ], a comma or a bracket is missing here", GENERAL_HINT, offset);
  const at = offset + key[0].length - key[1].length - 1;
  return said(`a comma is missing before '${key[1]}'`, COMMA_HINT, at);
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

function unexpectedText(text: string, offset: number): Worded {
  const [word = ""] = restOfLine(text, offset).split(/[\s,:{}[\]]/);
  if (openBracketAt(text, offset) === undefined) return said(ENDED, GENERAL_HINT, offset);
  return said(`a comma is missing before '${cut(word)}'`, COMMA_HINT, offset);
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

function listAmongKeys(text: string, offset: number): Worded {
  const message = "a list item begins here, but the lines above are keys of a mapping";
  return said(message, "Begin each item of a list with '- ', all in the same column.", lineContent(text, offset));
}

function badEscape(text: string, offset: number): Worded {
  const message = `in double quotes, ${text.slice(offset, offset + 2)} is not a valid escape`;
  return said(message, "Double the backslash, or use single quotes.", offset);
}

function nested(text: string, offset: number): Worded {
  if (/:(?:[ \t]|$)/.test(restOfLine(text, offset))) {
    return said("this value contains a colon and a space, like a key", "Put it in quotes.", offset);
  }
  const message = "this line is indented deeper than the one above, which already has a value";
  return said(message, "Align it with the key above.", nextLineContent(text, offset));
}

function misplaced(text: string, offset: number): Worded {
  const hint = "Align it with the other keys, or the other '- ', of the same level.";
  return said("this line's indentation matches no line above it", hint, lineContent(text, offset));
}

function unclosed(text: string, offset: number): Worded {
  const at = openBracketAt(text, offset);
  if (at === undefined) return said("a bracket is not closed", GENERAL_HINT, offset);
  const [open, close] = text[at] === "{" ? "{}" : "[]";
  return said(`this ${open} is not closed`, `Add ${close} where it ends.`, at);
}

function unopened(text: string, offset: number): Worded {
  const [open, close] = text[offset] === "]" ? "[]" : "{}";
  return said(`this ${close} closes no ${open}`, `Remove it, or add the ${open}.`, offset);
}

function unclosedQuote(text: string, offset: number): Worded {
  let at = offset;
  for (const piece of piecesOf(text)) {
    if (piece.offset > offset) break;
    if (/^["']/.test(piece.text)) at = piece.offset;
  }
  return said("this quote is not closed", "Close it on the same line.", at);
}

function needsQuotes(text: string, offset: number): Worded {
  return said(`text that begins with ${text[offset] ?? "this"} needs quotes`, "Put it in quotes.", offset);
}

/** Pieces that the lexer inserts (document, flow error end, scalar follows); they are no part of the text. */
const LEXER_MARKS: ReadonlySet<string> = new Set(["\u0002", "\u0018", "\u001f"]);

/** The innermost bracket that is open before an offset. */
function openBracketAt(text: string, offset: number): number | undefined {
  const open: number[] = [];
  for (const piece of piecesOf(text)) {
    if (piece.offset >= offset) break;
    if (piece.text === "{" || piece.text === "[") open.push(piece.offset);
    else if (piece.text === "}" || piece.text === "]") open.pop();
  }
  return open.at(-1);
}

function* piecesOf(text: string): Generator<{ readonly text: string; readonly offset: number }> {
  let offset = 0;
  for (const piece of new Lexer().lex(text)) {
    if (LEXER_MARKS.has(piece)) continue;
    yield { text: piece, offset };
    offset += piece.length;
  }
}

function restOfLine(text: string, offset: number): string {
  return /^[^\r\n]*/.exec(text.slice(offset, offset + LINE_CHARS_MAX))?.[0] ?? "";
}

/** Offset where the content of this line begins, or `offset` if that is later. */
function lineContent(text: string, offset: number): number {
  const start = text.lastIndexOf("\n", offset - 1) + 1;
  const content = start + (/^ */.exec(text.slice(start, start + LINE_CHARS_MAX))?.[0].length ?? 0);
  return Math.max(offset, content);
}

/** Offset where the content of the next line with content begins. */
function nextLineContent(text: string, offset: number): number {
  const end = text.indexOf("\n", offset);
  if (end < 0) return offset;
  const blank = /^\s*/.exec(text.slice(end, end + LINE_CHARS_MAX))?.[0].length ?? 0;
  return end + blank < text.length ? end + blank : offset;
}

/** Most characters of a line that are read. */
const LINE_CHARS_MAX = 10_000;
const SHOWN_CHARS_MAX = 60;

function cut(text: string): string {
  return text.length > SHOWN_CHARS_MAX ? `${text.slice(0, SHOWN_CHARS_MAX - 3)}...` : text;
}
