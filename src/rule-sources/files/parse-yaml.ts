// Parses YAML text as the reference service's parser does: only the first document, and no control characters.
// yaml-tree.ts then converts the document.

import { Composer, type CST, type Document, isMap, isSeq, LineCounter, Parser, type YAMLError } from "yaml";
import { errorMessage } from "../../base/thrown.ts";
import { makeProblem } from "../../engine/rules/problems.ts";
import type { Place, Problem, SourceFile } from "../../engine/rules/source.ts";
import { DEPTH_MAX, emptyScalar, TreeConverter } from "./yaml-tree.ts";
import { parserWords, wordComplaint } from "./yaml-words.ts";

/** Parses one file. Never throws: if it can't be parsed, `problems` says why and `root` is undefined. */
export function parseYaml(name: string, text: string, nodesMax: number): SourceFile {
  const lines = new LineCounter();
  const placeOf = (offset: number): Place => {
    const { line, col } = lines.linePos(Math.max(0, offset));
    return { file: name, line: Math.max(1, line), column: Math.max(1, col) };
  };
  const fail = (problems: Problem[]): SourceFile => ({ name, root: undefined, problems });
  const unreadable = checkText(name, text);
  if (unreadable !== undefined) return fail([unreadable]);
  let composed: Composed;
  try {
    composed = composeFirst(text, lines);
  } catch (cause) {
    // The parser collects errors and is not known to throw; if it does, that must not end the process.
    return fail([makeProblem("error", placeOf(0), parserWords(errorMessage(cause)), undefined)]);
  }
  const { document, secondAt, tooDeepAt } = composed;
  if (tooDeepAt !== undefined)
    return fail([makeProblem("error", placeOf(tooDeepAt), `nested deeper than ${DEPTH_MAX} levels`)]);
  if (document === undefined) return { name, root: emptyScalar(placeOf(0)), problems: [] };
  const { contents } = document;
  const problems = problemsOf(document.errors, contents, text, placeOf);
  if (secondAt !== undefined) {
    const message = "a second document begins here; only the first one is read";
    problems.push(makeProblem("warning", placeOf(secondAt), message, "Move it to its own file."));
  }
  if (problems.some(({ severity }) => severity === "error")) return fail(problems);
  const openEnd = text.endsWith("\n") ? Number.POSITIVE_INFINITY : text.length;
  const converter = new TreeConverter(placeOf, openEnd, nodesMax);
  const root = converter.convertRoot(contents);
  return converter.problems.length > 0 ? fail(converter.problems) : { name, root, problems };
}

// One mistake often causes further errors, which would only distract.
const SYNTAX_ERRORS_MAX = 3;
/** Most errors that are worded to find these. Wording one may read the whole text. */
const WORDED_MAX = 20;

function problemsOf(
  errors: readonly YAMLError[],
  root: Document.Parsed["contents"],
  text: string,
  placeOf: (offset: number) => Place,
): Problem[] {
  const problems: Problem[] = [];
  const noticedAt = new Set<number>();
  for (const error of errors) {
    if (root !== null && isBehind(error, root, placeOf)) {
      // The reference stops at the end of the first document, whatever follows it.
      const message = "the document ends before this; everything from here on is ignored";
      problems.push(makeProblem("warning", placeOf(error.pos[0]), message, "Check the indentation and the brackets."));
      break;
    }
    // Of several errors at one place, the first is the clearest.
    if (noticedAt.has(error.pos[0])) continue;
    if (noticedAt.size >= WORDED_MAX) break;
    noticedAt.add(error.pos[0]);
    const { message, suggestion, offset } = wordComplaint(text, error.message, error.pos[0]);
    const at = placeOf(offset);
    if (problems.some(({ line, column }) => line === at.line && column === at.column)) continue;
    problems.push(makeProblem("error", at, message, suggestion));
    if (problems.length === SYNTAX_ERRORS_MAX) break;
  }
  return problems;
}

function isBehind(
  error: YAMLError,
  root: NonNullable<Document.Parsed["contents"]>,
  placeOf: (offset: number) => Place,
): boolean {
  if (error.code !== "UNEXPECTED_TOKEN" || error.pos[0] < root.range[1]) return false;
  const isBlock = (isMap(root) || isSeq(root)) && root.flow !== true;
  return !isBlock || placeOf(error.pos[0]).column < placeOf(root.range[0]).column;
}

const END_OF_DOCUMENT: ReadonlySet<string> = new Set(["document", "directive", "doc-end"]);

/**
 * The first document, where the second one begins, and where the text nests lists or mappings deeper than DEPTH_MAX.
 */
interface Composed {
  readonly document: Document.Parsed | undefined;
  readonly secondAt?: number;
  readonly tooDeepAt?: number;
}

// As in the reference, text after the first document is not parsed, so mistakes there do no harm.
function composeFirst(text: string, lines: LineCounter): Composed {
  const composer = new Composer({
    schema: "failsafe",
    resolveKnownTags: false,
    uniqueKeys: false,
    strict: false,
    prettyErrors: false,
    logLevel: "silent",
  });
  let hasDocument = false;
  let hasEnded = false;
  let first: Document.Parsed | undefined;
  for (const token of new Parser(lines.addNewLine).parse(text)) {
    hasEnded ||= hasDocument && END_OF_DOCUMENT.has(token.type);
    if (hasEnded) {
      if (token.type !== "document" || token.value === undefined) continue;
      return { document: first ?? composeRest(composer, text), secondAt: token.offset };
    }
    if (token.type === "document") {
      hasDocument = true;
      const tooDeepAt = deepIn(token.value);
      if (tooDeepAt !== undefined) return { document: undefined, tooDeepAt };
    }
    for (const document of composer.next(token)) first ??= document as Document.Parsed;
  }
  return { document: first ?? composeRest(composer, text) };
}

// The composer is recursive. It takes a millisecond per hundred levels, and when the stack is nearly used up V8 may end
// the process instead of throwing. So deep text is refused before it is composed, by a loop without recursion.
function deepIn(root: CST.Token | undefined): number | undefined {
  let level: CST.Token[] = root === undefined ? [] : [root];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > DEPTH_MAX) return level[0]?.offset ?? 0;
    level = level.flatMap((token) => ("items" in token ? token.items.flatMap(partsOf) : []));
  }
  return undefined;
}

function partsOf({ key, value }: { readonly key?: CST.Token | null; readonly value?: CST.Token }): CST.Token[] {
  return [key, value].filter((part) => part !== undefined && part !== null);
}

function composeRest(composer: Composer, text: string): Document.Parsed | undefined {
  for (const document of composer.end(true, text.length)) return document as Document.Parsed;
  return undefined;
}

function checkText(file: string, text: string): Problem | undefined {
  const control = text.search(CONTROL);
  if (control < 0) return undefined;
  const code = text.charCodeAt(control).toString(16).padStart(2, "0");
  const message = `a control character (0x${code}) is not allowed in YAML`;
  return makeProblem("error", placeInText(file, text, control), message);
}

// Everything but tab, line feed, carriage return, NEL and printable characters. Surrogates are paired, because the
// bytes were UTF-8.
// biome-ignore lint/suspicious/noControlCharactersInRegex: finding these is the purpose
const CONTROL = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u0084\u0086-\u009f\ufffe\uffff]/;

/** The line and column of an offset in a file's text. */
export function placeInText(file: string, text: string, offset: number): Place {
  const before = text.slice(0, offset).split(/\r\n|\r|\n/);
  return { file, line: before.length, column: (before.at(-1) ?? "").length + 1 };
}
