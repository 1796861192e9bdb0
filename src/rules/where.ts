// The place of a rule as its `where` tells it.

import type { Rule } from "./rule-set.ts";
import type { Place } from "./source.ts";

/** Reads `file:line:column`; the file's name may hold colons. */
export function placeOf({ where }: Rule): Place {
  const parts = where.split(":");
  const column = Number(parts.pop());
  const line = Number(parts.pop());
  return { file: parts.join(":"), line, column };
}
