// Reads the patterns of a rule: `value`, with or without stars, or `match`. Regular expressions are compiled once per
// text, and are bounded in their sum.

import type * as Re2 from "re2js";
import { getOrInsert } from "../../base/get-or-insert.ts";
import { createHash, loadPackage } from "../../base/host.ts";
import type { LongWork } from "../../base/long-work.ts";
import { errorMessage } from "../../base/thrown.ts";
import { oneByteOf, textOf } from "../domain/request.ts";
import { AddressRanges, coversPrivateNetwork, parseRange } from "./cidr.ts";
import type { PatternDraft } from "./draft.ts";
import { type Field, type Fields, readScalars, textOfNode } from "./fields.ts";
import type { ProblemLog } from "./problems.ts";
import type { Pattern } from "./rule-set.ts";
import {
  REGEX_CHARS_MAX,
  REGEX_INSTRUCTIONS_MAX,
  REGEX_INSTRUCTIONS_TOTAL_MAX,
  REGEX_VALUE_CHARS_MAX,
  REGEX_WORK_MAX,
  SECTIONS,
} from "./schema.ts";
import type { Place } from "./source.ts";

const SHOWN_RANGES_CHARS_MAX = 256;

/** The patterns of a rule with that key: one, or one per value of `one_of`. Empty if there are mistakes. */
export function* readPatterns(key: string, fields: Fields, regexes: Regexes): LongWork<PatternDraft[]> {
  const { log } = fields;
  const value = fields.text("value") ?? "";
  const match = fields.section("match", "match");
  if (match === undefined) return [valuePattern(key, value, fields.valueAt("value"))];
  if (value !== "") log.error(fields.keyAt("value"), "'value' can't be combined with 'match'", "Keep one of the two.");
  if (key.includes("*")) log.error(match.at, "'match' can't be used with a key that contains *");
  const given = SECTIONS.match.keys.map((name) => match.given(name)).filter((field) => field !== undefined);
  const [first, second] = given;
  if (first === undefined) {
    match.missing(`match: expected one of ${SECTIONS.match.keys.join(", ")}`);
    return [];
  }
  if (second !== undefined) {
    log.error(second.keyAt, `match: '${second.name}' can't be combined with '${first.name}'`, "Write two rules.");
  }
  return yield* readMatch(first, regexes, log);
}

// The text is part of bucket keys, paths and labels, so a long list is shortened to its first range, its length and its
// digest.
function shownRanges(texts: readonly string[]): string {
  const [first = ""] = texts;
  const all = texts.join(",");
  if (all.length <= SHOWN_RANGES_CHARS_MAX) return all;
  return `${first},...(${texts.length} ranges, ${createHash("sha256").update(all).digest("hex").slice(0, 16)})`;
}

/** Identifies a pattern within its level: two rules with the same key and identity are duplicates. */
export function patternIdentity(pattern: PatternDraft): string {
  const { kind } = pattern.pattern;
  return `${kind === "compositeWildcard" ? "wildcard" : kind} ${pattern.text}`;
}

function valuePattern(key: string, value: string, at: Place): PatternDraft {
  if (key.includes("*")) {
    const composite = value === "" ? key : `${key}_${value}`;
    return { pattern: { kind: "compositeWildcard", pieces: composite.split("*") }, text: value, at };
  }
  if (value === "") return { pattern: { kind: "any" }, text: "", at };
  if (value.includes("*")) return { pattern: { kind: "wildcard", pieces: value.split("*") }, text: value, at };
  return { pattern: { kind: "exact", value }, text: value, at };
}

function* readMatch(field: Field, regexes: Regexes, log: ProblemLog): LongWork<PatternDraft[]> {
  if (field.name === "cidr") return yield* readCidr(field, log);
  const scalars = readScalars(field, log);
  if (field.name !== "one_of" && field.value.kind === "sequence") {
    log.error(field.value.at, `${field.name}: expected one text, got a list`, "Write a rule for each.");
    return [];
  }
  const patterns: PatternDraft[] = [];
  for (const scalar of scalars) {
    yield;
    const text = textOfNode(field.name, scalar, log);
    const pattern = text === undefined ? undefined : makePattern(field.name, text, scalar.at, regexes, log);
    if (pattern === undefined) continue;
    const stands = pattern.kind === "exact" ? pattern.value : `${field.name}:${text}`;
    patterns.push({ pattern, text: stands, at: scalar.at });
  }
  return patterns;
}

function makePattern(name: string, text: string, at: Place, regexes: Regexes, log: ProblemLog): Pattern | undefined {
  if (name !== "regex" && text.includes("*")) {
    const message = `${name}: * is not a wildcard here, got '${textOf(text)}'`;
    log.warn(at, message, "Write a pattern with * under 'value'.");
  }
  if (name === "one_of") return { kind: "exact", value: text };
  const hint = "Remove 'match' to match every value.";
  if (text === "") return log.error(at, `${name}: the text is empty, so every value would match`, hint);
  if (name === "prefix") return { kind: "prefix", pieces: [text, ""] };
  if (name === "suffix") return { kind: "suffix", pieces: ["", text] };
  return regexes.compile(textOf(text), at, log);
}

function* readCidr(field: Field, log: ProblemLog): LongWork<PatternDraft[]> {
  const scalars = readScalars(field, log);
  const ranges = new AddressRanges(scalars.length);
  const texts: string[] = [];
  let isPrivate = false;
  for (const scalar of scalars) {
    yield;
    const range = parseRange(scalar.text);
    if (typeof range === "string") {
      log.wrong(scalar, `cidr: ${range}`);
      continue;
    }
    ranges.add(range);
    texts.push(range.text);
    isPrivate ||= coversPrivateNetwork(range);
  }
  if (texts.length === 0) return [];
  const pattern: Pattern = { kind: "cidr", ranges: texts, test: (text) => ranges.has(text) };
  return [{ pattern, text: `cidr:${shownRanges(texts)}`, at: field.value.at, coversPrivateNetwork: isPrivate }];
}

/** Most bytes of UTF-8 per UTF-16 code unit. */
const BYTES_PER_CHAR_MAX = 3;

export class Regexes {
  readonly #compiled = new Map<string, Pattern | undefined>();
  #instructions = 0;

  /**
   * Compiles a regular expression, which matches anywhere in the value unless anchored. Undefined if it is refused;
   * `log` says why.
   */
  compile(source: string, at: Place, log: ProblemLog): Pattern | undefined {
    return getOrInsert(this.#compiled, source, () => this.#compile(source, at, log));
  }

  // No implicit anchors: a limit that matches too much is noticed, one that matches too little is not.
  #compile(source: string, at: Place, log: ProblemLog): Pattern | undefined {
    if (source.length > REGEX_CHARS_MAX)
      return log.error(at, `regex: expected at most ${REGEX_CHARS_MAX} characters, got ${source.length}`);
    // Loaded with the first regular expression, because most rules have none.
    const { RE2JS } = loadPackage("re2js") as typeof Re2;
    try {
      const compiled = RE2JS.compile(source);
      const size = compiled.programSize();
      this.#bound(size, at, log);
      return { kind: "regex", source: oneByteOf(source), test: testOf(compiled, size) };
    } catch (error) {
      const reason = errorMessage(error).replace(/^error parsing regexp: /, "");
      return log.error(at, `regex: ${reason}`, "The syntax is RE2's: no look-around, no back-references.");
    }
  }

  #bound(size: number, at: Place, log: ProblemLog): void {
    if (size > REGEX_INSTRUCTIONS_MAX) {
      const message = `regex: expected at most ${REGEX_INSTRUCTIONS_MAX} steps, got ${size}`;
      log.error(at, message, "Lower the counts in { }.");
    }
    const before = this.#instructions;
    this.#instructions += size;
    if (before > REGEX_INSTRUCTIONS_TOTAL_MAX || this.#instructions <= REGEX_INSTRUCTIONS_TOTAL_MAX) return;
    const message = `regex: too many regexes: from here on, all rules together exceed ${REGEX_INSTRUCTIONS_TOTAL_MAX} steps`;
    log.error(at, message, "Use prefix, suffix or one_of where possible.");
  }
}

/** How many characters of a value are tested by a regular expression of `size` instructions. */
function regexSight(size: number): number {
  return Math.min(REGEX_VALUE_CHARS_MAX, Math.floor(REGEX_WORK_MAX / size));
}

// Decodes only the tested part: a value may have 64 KiB, and there may be a thousand patterns.
function testOf(compiled: Re2.RE2JS, size: number): (value: string) => boolean {
  const sight = regexSight(size);
  const bytesMax = BYTES_PER_CHAR_MAX * (sight + 1);
  return (value) => compiled.test(textOf(value.length > bytesMax ? value.slice(0, bytesMax) : value).slice(0, sight));
}
