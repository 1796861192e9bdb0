// Compiles the regular expressions of one rule set: each text once, and bounded in their sum.

import { RE2JS } from "re2js";
import { errorMessage } from "../base/thrown.ts";
import { oneByteOf, textOf } from "../domain/request.ts";
import type { ProblemLog } from "./problems.ts";
import type { Pattern } from "./rule-set.ts";
import {
  REGEX_CHARS_MAX,
  REGEX_INSTRUCTIONS_MAX,
  REGEX_INSTRUCTIONS_TOTAL_MAX,
  REGEX_VALUE_CHARS_MAX,
  REGEX_WORK_MAX,
} from "./schema.ts";
import type { Place } from "./source.ts";

/** Most bytes of UTF-8 per UTF-16 code unit. */
const BYTES_PER_CHAR_MAX = 3;

export class Regexes {
  readonly #compiled = new Map<string, Pattern | undefined>();
  #instructions = 0;

  /** Compiles a regular expression, which matches anywhere in the value unless anchored. Undefined if it is refused; `log` says why. */
  compile(source: string, at: Place, log: ProblemLog): Pattern | undefined {
    const known = this.#compiled.get(source);
    if (known !== undefined) return known;
    const pattern = this.#compile(source, at, log);
    this.#compiled.set(source, pattern);
    return pattern;
  }

  // No implicit anchors: a limit that matches too much is noticed, one that matches too little is not.
  #compile(source: string, at: Place, log: ProblemLog): Pattern | undefined {
    if (source.length > REGEX_CHARS_MAX) {
      log.error(at, `regex: expected at most ${REGEX_CHARS_MAX} characters, got ${source.length}`);
      return undefined;
    }
    try {
      const compiled = RE2JS.compile(source);
      const size = compiled.programSize();
      this.#bound(size, at, log);
      return { kind: "regex", source: oneByteOf(source), test: testOf(compiled, size) };
    } catch (error) {
      const reason = errorMessage(error);
      log.error(
        at,
        `regex: ${reason.replace(/^error parsing regexp: /, "")}`,
        "The syntax is RE2's: no look-around, no back-references.",
      );
      return undefined;
    }
  }

  #bound(size: number, at: Place, log: ProblemLog): void {
    if (size > REGEX_INSTRUCTIONS_MAX) {
      const message = `regex: too expensive, ${size} steps where ${REGEX_INSTRUCTIONS_MAX} are allowed`;
      log.error(at, message, "Lower the counts in { }.");
    }
    const before = this.#instructions;
    this.#instructions += size;
    if (before > REGEX_INSTRUCTIONS_TOTAL_MAX || this.#instructions <= REGEX_INSTRUCTIONS_TOTAL_MAX) return;
    const message = `regex: from here on there are too many, more than ${REGEX_INSTRUCTIONS_TOTAL_MAX} steps in all rules`;
    log.error(at, message, "Use prefix, suffix or one_of where they will do.");
  }
}

/** How many characters of a value are tested by a regular expression of `size` instructions. */
function regexSight(size: number): number {
  return Math.min(REGEX_VALUE_CHARS_MAX, Math.floor(REGEX_WORK_MAX / size));
}

// Decodes only the tested part: a value may have 64 KiB, and there may be a thousand patterns.
function testOf(compiled: RE2JS, size: number): (value: string) => boolean {
  const sight = regexSight(size);
  const bytesMax = BYTES_PER_CHAR_MAX * (sight + 1);
  return (value) => compiled.test(textOf(value.length > bytesMax ? value.slice(0, bytesMax) : value).slice(0, sight));
}
