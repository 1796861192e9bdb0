// YAML text to a document, read as the reference service's parser reads it: first document only, and nothing that it would
// refuse before it looks at a single key. What the document means is left to yaml-tree.ts.

import { Composer, type Document, isMap, isSeq, Lexer, LineCounter, Parser, type YAMLError } from "yaml";
import { makeProblem } from "../rules/problems.ts";
import type { Problem } from "../rules/rule-set.ts";
import type { Place, SourceFile } from "../rules/source.ts";
import { emptyScalar, TreeConverter } from "./yaml-tree.ts";

/** Parses one file. Never throws: what can't be parsed is in `problems`, and `root` is undefined then. */
export function parseYaml(name: string, text: string): SourceFile {
  const lines = new LineCounter();
  const placeOf = (offset: number): Place => {
    const { line, col } = lines.linePos(Math.max(0, offset));
    return { file: name, line: Math.max(1, line), column: Math.max(1, col) };
  };
  const fail = (problems: Problem[]): SourceFile => ({ name, root: undefined, problems });
  const control = findControlCharacter(text);
  if (control !== undefined) {
    const code = text.charCodeAt(control).toString(16).padStart(2, "0");
    return fail([
      makeProblem(
        "error",
        placeInText(name, text, control),
        `a control character (0x${code}) can't stand in YAML`,
        undefined,
      ),
    ]);
  }
  const tab = findTabIndent(text);
  if (tab !== undefined) {
    return fail([makeProblem("error", placeInText(name, text, tab), "a tab can't indent a line", "Use spaces.")]);
  }
  const directive = findUnknownDirective(text);
  if (directive !== undefined) {
    const hint = "Remove the line.";
    return fail([
      makeProblem("error", placeInText(name, text, directive), "expected no directive but %YAML 1.1 or %TAG", hint),
    ]);
  }
  const document = composeFirst(text, lines);
  if (document === undefined) return { name, root: emptyScalar(placeOf(0)), problems: [] };
  const problems = document.errors.map((error) => problemOf(error, document, placeOf));
  if (problems.some(({ severity }) => severity === "error")) return fail(problems);
  const converter = new TreeConverter(placeOf);
  const root = converter.convertRoot(document.contents);
  return converter.problems.length > 0 ? fail(converter.problems) : { name, root, problems };
}

// The reference stops reading where the first document ends, even if what follows makes no sense.
function problemOf(error: YAMLError, document: Document.Parsed, placeOf: (offset: number) => Place): Problem {
  const at = placeOf(error.pos[0]);
  const root = document.contents;
  if (root === null || error.code !== "UNEXPECTED_TOKEN") {
    return makeProblem("error", at, `YAML: ${sentence(error.message)}`, undefined);
  }
  const isBlock = (isMap(root) || isSeq(root)) && root.flow !== true;
  const isBehind = error.pos[0] >= root.range[1] && (!isBlock || at.column < placeOf(root.range[0]).column);
  if (!isBehind) return makeProblem("error", at, `YAML: ${sentence(error.message)}`, undefined);
  return makeProblem(
    "warning",
    at,
    "the document ends before this; what follows is not read",
    "Check the indentation.",
  );
}

const END_OF_DOCUMENT: ReadonlySet<string> = new Set(["document", "directive", "doc-end"]);

// What follows the first document is not looked at, as in the reference, so a broken second one does no harm.
function composeFirst(text: string, lines: LineCounter): Document.Parsed | undefined {
  const composer = new Composer({
    schema: "failsafe",
    resolveKnownTags: false,
    uniqueKeys: false,
    strict: false,
    prettyErrors: false,
    logLevel: "silent",
  });
  let hasDocument = false;
  for (const token of new Parser(lines.addNewLine).parse(text)) {
    if (hasDocument && END_OF_DOCUMENT.has(token.type)) break;
    if (token.type === "document") hasDocument = true;
    for (const document of composer.next(token)) return document as Document.Parsed;
  }
  for (const document of composer.end(true, text.length)) return document as Document.Parsed;
  return undefined;
}

function sentence(message: string): string {
  return message.charAt(0).toLowerCase() + message.slice(1);
}

// Tab, line feed, carriage return, NEL and everything printable; surrogates come in pairs because the bytes were UTF-8.
// biome-ignore lint/suspicious/noControlCharactersInRegex: finding these is the purpose
const CONTROL = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u0084\u0086-\u009f\ufffe\uffff]/;

function findControlCharacter(text: string): number | undefined {
  const found = text.search(CONTROL);
  return found < 0 ? undefined : found;
}

// Directives stand before the first line of content; yaml only warns of those it doesn't know.
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

// The reference takes no tab before the content of a line outside brackets and quotes, even on an empty line. The lexer
// tells what is inside: quoted, plain and block text are one piece each.
function findTabIndent(text: string): number | undefined {
  if (!/^ *\t/m.test(text)) return undefined;
  let offset = 0;
  let brackets = 0;
  let isLineStart = true;
  let hasDocument = false;
  for (const piece of new Lexer().lex(text)) {
    if (piece === "[" || piece === "{") brackets++;
    else if (piece === "]" || piece === "}") brackets--;
    else if (piece === "---" || piece === "...") {
      if (hasDocument) return undefined;
    } else if (isLineStart && brackets === 0 && /^ *\t/.test(piece)) return offset;
    if (CONTROL_PIECES.has(piece)) continue;
    if (/[^\s#]/.test(piece[0] ?? " ")) hasDocument = true;
    isLineStart = piece.endsWith("\n") || (isLineStart && /^ *$/.test(piece));
    offset += piece.length;
  }
  return undefined;
}

// The lexer's own marks (document, flow error end, scalar follows), which are no part of the text.
const CONTROL_PIECES: ReadonlySet<string> = new Set(["\u0002", "\u0018", "\u001f"]);

const DIRECTIVE_LINES_MAX = 1_000;

function placeInText(file: string, text: string, offset: number): Place {
  const before = text.slice(0, offset).split(/\r\n|\r|\n/);
  return { file, line: before.length, column: (before.at(-1) ?? "").length + 1 };
}
