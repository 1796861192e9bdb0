// YAML text to a document, read as the reference service's parser reads it: first document only, and nothing that it would
// refuse before it looks at a single key. What the document means is left to yaml-tree.ts.

import { Composer, type CST, type Document, isMap, isSeq, LineCounter, Parser, type YAMLError } from "yaml";
import { errorMessage } from "../core/thrown.ts";
import { makeProblem } from "../rules/problems.ts";
import type { Problem } from "../rules/rule-set.ts";
import type { Place, SourceFile } from "../rules/source.ts";
import { checkText } from "./yaml-text.ts";
import { DEPTH_MAX, emptyScalar, TreeConverter } from "./yaml-tree.ts";
import { wordComplaint } from "./yaml-words.ts";

/** Parses one file. Never throws: what can't be parsed is in `problems`, and `root` is undefined then. */
export function parseYaml(name: string, text: string): SourceFile {
  const lines = new LineCounter();
  const placeOf = (offset: number): Place => {
    const { line, col } = lines.linePos(Math.max(0, offset));
    return { file: name, line: Math.max(1, line), column: Math.max(1, col) };
  };
  const fail = (problems: Problem[]): SourceFile => ({ name, root: undefined, problems });
  const unreadable = checkText(name, text);
  if (unreadable !== undefined) return fail([unreadable]);
  let document: Document.Parsed | undefined;
  let secondAt: number | undefined;
  try {
    ({ document, secondAt } = composeFirst(text, lines));
  } catch (cause) {
    if (cause instanceof TooDeep) {
      const message = `nested deeper than ${DEPTH_MAX} levels`;
      return fail([makeProblem("error", placeOf(cause.offset), message, undefined)]);
    }
    // The parser collects errors and is not known to throw; if it does, that must not end the process.
    const message = `YAML: ${sentence(errorMessage(cause))}`;
    return fail([makeProblem("error", placeOf(0), message, undefined)]);
  }
  if (document === undefined) return { name, root: emptyScalar(placeOf(0)), problems: [] };
  const { contents } = document;
  const problems = problemsOf(document.errors, contents, text, placeOf);
  if (secondAt !== undefined) {
    const message = "a second document begins here; only the first one is read";
    problems.push(makeProblem("warning", placeOf(secondAt), message, "Give it a file of its own."));
  }
  if (problems.some(({ severity }) => severity === "error")) return fail(problems);
  const converter = new TreeConverter(placeOf, text.endsWith("\n") ? Number.POSITIVE_INFINITY : text.length);
  const root = converter.convertRoot(contents);
  return converter.problems.length > 0 ? fail(converter.problems) : { name, root, problems };
}

// One mistake makes the parser stumble over much that follows it.
const SYNTAX_ERRORS_MAX = 3;
/** Errors that are looked at for these; each look may read the whole text. */
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
      // The reference stops reading where the first document ends, even if what follows makes no sense.
      const message = "the document ends before this; nothing from here on is read";
      problems.push(makeProblem("warning", placeOf(error.pos[0]), message, "Check the indentation and the brackets."));
      break;
    }
    // The first thing said about a place is the plainest.
    if (noticedAt.has(error.pos[0])) continue;
    if (noticedAt.size >= WORDED_MAX) break;
    noticedAt.add(error.pos[0]);
    const { message, suggestion, offset } = wordComplaint(text, { message: error.message, offset: error.pos[0] });
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

// What follows the first document is not looked at, as in the reference, so a broken second one does no harm.
function composeFirst(
  text: string,
  lines: LineCounter,
): { readonly document: Document.Parsed | undefined; readonly secondAt: number | undefined } {
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
      refuseDeep(token.value);
    }
    for (const document of composer.next(token)) first ??= document as Document.Parsed;
  }
  return { document: first ?? composeRest(composer, text), secondAt: undefined };
}

/** Text whose brackets, lists or mappings lie too deep in each other; `offset` is where. */
class TooDeep extends Error {
  readonly offset: number;

  constructor(offset: number) {
    super("nested too deeply");
    this.offset = offset;
  }
}

// The composer recurses, for a millisecond a hundred levels, and with little stack left V8 ends the process rather than throw.
// So nothing deep reaches it. This walk does not recurse.
function refuseDeep(root: CST.Token | undefined): void {
  let level: CST.Token[] = root === undefined ? [] : [root];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > DEPTH_MAX) throw new TooDeep(level[0]?.offset ?? 0);
    const next: CST.Token[] = [];
    for (const token of level) {
      if (!("items" in token)) continue;
      for (const { key, value } of token.items) {
        if (key !== undefined && key !== null) next.push(key);
        if (value !== undefined) next.push(value);
      }
    }
    level = next;
  }
}

function composeRest(composer: Composer, text: string): Document.Parsed | undefined {
  for (const document of composer.end(true, text.length)) return document as Document.Parsed;
  return undefined;
}

function sentence(message: string): string {
  return message.charAt(0).toLowerCase() + message.slice(1);
}
