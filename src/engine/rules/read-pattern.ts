// Reads the patterns of a rule: `value`, with or without stars, or `match`.

import { createHash } from "node:crypto";
import type { LongWork } from "../base/long-work.ts";
import { textOf } from "../domain/request.ts";
import { AddressRanges, coversPrivateNetwork, parseRange } from "./cidr.ts";
import type { PatternDraft } from "./draft.ts";
import { type Field, type Fields, readFields } from "./fields.ts";
import { describeSource, type ProblemLog } from "./problems.ts";
import { readScalars, readSection, readText, textOfNode } from "./readers.ts";
import type { Regexes } from "./regexes.ts";
import type { Pattern } from "./rule-set.ts";
import { SECTION_KEYS } from "./schema.ts";
import type { Place } from "./source.ts";

const SHOWN_RANGES_CHARS_MAX = 256;

/** The patterns of a rule with that key: one, or one per value of `one_of`. Empty if there are mistakes. */
export function* readPatterns(
  key: string,
  fields: Fields,
  regexes: Regexes,
  log: ProblemLog,
): LongWork<PatternDraft[]> {
  const value = readText(fields, "value", log) ?? "";
  const match = readSection(fields.get("match"), log);
  if (match === undefined) return [valuePattern(key, value, fields.get("value")?.value.at ?? fields.at)];
  const matchFields = readFields("match", match, log);
  if (value !== "")
    log.error(fields.get("value")?.keyAt ?? fields.at, "'value' can't stand beside 'match'", "Keep one of the two.");
  if (key.includes("*")) log.error(matchFields.at, "'match' can't stand beside a key with a star in it");
  const given = SECTION_KEYS.match.map((name) => matchFields.given(name)).filter((field) => field !== undefined);
  const [first, second] = given;
  if (first === undefined) {
    if (!matchFields.hasRefused) log.error(matchFields.at, `match: expected one of ${SECTION_KEYS.match.join(", ")}`);
    return [];
  }
  if (second !== undefined) {
    log.error(second.keyAt, `match: '${second.name}' can't stand beside '${first.name}'`, "Make them two rules.");
  }
  return yield* readMatch(first, regexes, log);
}

// The text is part of bucket keys, paths and labels, so a long list is shortened to its first range, its length and its digest.
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
    log.error(field.value.at, `${field.name}: expected one text, got a list`, "Make one rule of each.");
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
    log.warn(
      at,
      `${name}: a * stands only for itself here, got '${textOf(text)}'`,
      "Patterns with * are written as 'value'.",
    );
  }
  if (name === "one_of") return { kind: "exact", value: text };
  if (text === "") {
    log.error(at, `${name}: the text is empty, so every value would match`, "Leave 'match' out to match every value.");
    return undefined;
  }
  if (name === "prefix") return { kind: "prefix", prefix: text };
  if (name === "suffix") return { kind: "suffix", suffix: text };
  return regexes.compile(textOf(text), at, log);
}

function* readCidr(field: Field, log: ProblemLog): LongWork<PatternDraft[]> {
  const ranges = new AddressRanges();
  const texts: string[] = [];
  let isPrivate = false;
  for (const scalar of readScalars(field, log)) {
    yield;
    const range = parseRange(scalar.text);
    if (typeof range === "string") {
      log.error(scalar.at, `cidr: ${range}, got ${describeSource(scalar)}`);
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
