// Words for what a limit allows, and names in quotes. One-byte text is decoded.

import { ALGORITHM_NAMES, Algorithm, type Limit, UNIT_NAMES, UNIT_SECONDS, Unit } from "../domain/limit.ts";
import { textOf } from "../domain/request.ts";

/** Longer values are cut in sentences; other fields of the report have them whole. */
const QUOTED_LENGTH_MAX = 80;
/** Longer lists of names are cut. */
const LISTED_MAX = 8;

/** One-byte text in quotes, cut if long. */
export function quoted(oneByte: string): string {
  const text = textOf(oneByte);
  return `'${text.length > QUOTED_LENGTH_MAX ? `${text.slice(0, QUOTED_LENGTH_MAX)}...` : text}'`;
}

/** The first LISTED_MAX of one-byte names, in quotes. */
export function listed(names: Iterable<string>): string {
  const all = [...names];
  const shown = all.slice(0, LISTED_MAX).map(quoted).join(", ");
  return all.length > LISTED_MAX ? `${shown} and ${all.length - LISTED_MAX} more` : shown;
}

/** What the limit allows, in words: `10 tokens per second, burst 20`. `counted` names what a window counts. */
export function limitWords(limit: Limit, counted: "hit" | "call" = "hit"): string {
  if (limit.isConcurrent) return `${limit.burst} at once, each for ${countedWords(limit.holdSeconds)} at most`;
  const held = limit.holdSeconds > 0 ? `, held for ${countedWords(limit.holdSeconds)} at most` : "";
  return `${numberWords(limit, counted)}${held}${priorityWords(limit)}`;
}

function priorityWords({ priority, reserve }: Limit): string {
  const guarantee = priority?.guarantee;
  if (reserve > 0) {
    const forWhom = guarantee === undefined ? "calls of high priority" : "calls within their caller's guarantee";
    return `; ${reserve} more are kept for ${forWhom}`;
  }
  if (priority === undefined) return "";
  if (guarantee !== undefined) {
    const { limit, keptFor } = guarantee;
    const kept = keptFor === 1 ? "1 caller" : `up to ${keptFor} callers`;
    return `; of these ${priority.low.reserve} only within a guarantee for each ${quoted(priority.entry)}: ${numberWords(limit, "hit")}, kept for ${kept}`;
  }
  const values = [...priority.values].map(quoted).join(" or ");
  return `; of these ${priority.low.reserve} only where ${quoted(priority.entry)} is ${values}`;
}

function numberWords(limit: Limit, counted: "hit" | "call"): string {
  const amount = limit.shownAmount;
  const hits = `${amount} ${counted}${amount === 1 ? "" : "s"}`;
  if (limit.calendar !== undefined) return `${hits} per ${limit.calendar.words}`;
  // The unit as the rule writes it, because a token bucket's window is the shortest one of the same rate (reduceRate).
  const isOfUnit = limit.shownUnit !== Unit.unknown && !limit.isConcurrent;
  const per = `per ${windowWords(isOfUnit ? (UNIT_SECONDS[limit.shownUnit] ?? 1) : limit.windowSeconds)}`;
  if (limit.algorithm !== Algorithm.tokenBucket) {
    return `${hits} ${per}, ${algorithmWords(limit.algorithm)}`;
  }
  const tokens = isOfUnit ? amount : limit.amount;
  const rate = `${tokens} ${tokens === 1 ? "token" : "tokens"} ${per}`;
  return `${rate}, burst ${limit.burst}, token bucket`;
}

/** A length of time in the largest unit that divides it: `second`, `30 seconds`, `2 weeks`. */
function windowWords(seconds: number): string {
  let best = 1;
  UNIT_SECONDS.forEach((unitSeconds, unit) => {
    if (unit > 0 && seconds % unitSeconds === 0 && unitSeconds > (UNIT_SECONDS[best] ?? 0)) best = unit;
  });
  const count = seconds / (UNIT_SECONDS[best] ?? 1);
  return count === 1 ? `${UNIT_NAMES[best]}` : `${count} ${UNIT_NAMES[best]}s`;
}

/** As windowWords, but always with a number: `1 minute`. */
function countedWords(seconds: number): string {
  const words = windowWords(seconds);
  return /^\d/.test(words) ? words : `1 ${words}`;
}

function algorithmWords(algorithm: Algorithm): string {
  return ALGORITHM_NAMES[algorithm].replace("_", " ");
}
