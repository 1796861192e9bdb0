// What is worth knowing of limits that work as written, though perhaps not as meant: seen in what they counted, minute by minute.

import { getOrInsert } from "../../engine/base/get-or-insert.ts";
import { isoTime, MICROS_PER_SECOND } from "../../engine/base/units.ts";
import type { Limit } from "../../engine/domain/limit.ts";
import { textOf } from "../../engine/domain/request.ts";
import type { LimitStats } from "../../engine/domain/stats.ts";
import { limitWords } from "../../engine/rules/explain-words.ts";
import type { DomainRules } from "../../engine/rules/rule-set.ts";
import type { LimitSums } from "./stats-book.ts";

const DAY_US = 86_400 * MICROS_PER_SECOND;
/** Shadow mode that has hidden refusals for this long was probably forgotten. */
const SHADOW_US = 14 * DAY_US;
/** A limit that never came above one part in so many is probably too high to protect anything. */
const UNUSED_PART = 100;
const LOOK_SECONDS = 60;
/** Limits of one kind that are named. */
const NAMED_MAX = 20;

/** What a limit has counted in a day: hits, refusals, and the most hits between two looks. */
interface Day {
  readonly hits: number;
  readonly over: number;
  readonly peak: number;
}

interface Trend {
  readonly sums: Pick<LimitSums, "totalHits" | "overLimit" | "shadowMode">;
  readonly dayUs: number;
  readonly day: Day;
  /** The last whole day; undefined before it has ended. */
  readonly lastDay: Day | undefined;
  /** When shadow mode first and last hid a refusal. */
  readonly shadow: { readonly firstUs: number; readonly lastUs: number } | undefined;
}

/** A sentence, and the limits that it is about. */
export interface Information {
  readonly says: string;
  readonly details: readonly string[];
}

const NO_DAY: Day = { hits: 0, over: 0, peak: 0 };

type Tell = (limit: Limit, trend: Trend, domain: DomainRules, nowUs: number) => string | undefined;

/** What there is to tell of a limit, by the sentence that is true of it: each gives the limit's line, or undefined. */
const TELLS = Object.entries<Tell>({
  "Limits that came above 1 % of their room at no time of the last whole day:": (limit, trend) =>
    isUnused(limit, trend) ? lineOf(limit) : undefined,
  "Limits that refused all hits of the last whole day:": (limit, { lastDay }) =>
    limit.amount > 0 && lastDay !== undefined && lastDay.hits > 0 && lastDay.over >= lastDay.hits
      ? lineOf(limit)
      : undefined,
  "Limits of one key that allow more than the global_limit allows all keys together:": (limit, _, { globalLimit }) =>
    globalLimit !== undefined && allowsMore(limit, globalLimit.limit)
      ? `${lineOf(limit)}; all together ${limitWords(globalLimit.limit)}`
      : undefined,
  "Limits whose refusals shadow mode has hidden for weeks:": (limit, { shadow }, _, nowUs) =>
    shadow !== undefined && nowUs - shadow.firstUs >= SHADOW_US && nowUs - shadow.lastUs < DAY_US
      ? `${lineOf(limit)}, since ${isoTime(shadow.firstUs)}`
      : undefined,
});

/** Follows limits from look to look. */
export class LimitTrends {
  readonly #trends = new WeakMap<LimitStats, Trend>();
  #lines = new Map<string, string[]>();
  /** As of the last look at all limits. */
  information: readonly Information[] = [];

  /** Notes what a limit has counted by now. */
  look(limit: Limit, domain: DomainRules, sums: LimitSums, nowUs: number): void {
    const trend = nextTrend(this.#trends.get(limit.stats), sums, nowUs);
    this.#trends.set(limit.stats, trend);
    for (const [says, tell] of TELLS) {
      const line = tell(limit, trend, domain, nowUs);
      if (line !== undefined) getOrInsert(this.#lines, says, () => []).push(line);
    }
  }

  /** All limits have been looked at. */
  end(): void {
    this.information = [...this.#lines].map(([says, lines]) => {
      const more = lines.length > NAMED_MAX ? [`and ${lines.length - NAMED_MAX} more`] : [];
      return { says, details: [...lines.slice(0, NAMED_MAX), ...more] };
    });
    this.#lines = new Map();
  }
}

function nextTrend(last: Trend | undefined, sums: LimitSums, nowUs: number): Trend {
  if (last === undefined) return { sums, dayUs: nowUs, day: NO_DAY, lastDay: undefined, shadow: undefined };
  const hits = sums.totalHits - last.sums.totalHits;
  const over = sums.overLimit - last.sums.overLimit;
  const { day: before, dayUs, lastDay, shadow } = last;
  if (hits === 0 && over === 0 && nowUs - dayUs < DAY_US) return last;
  const day = { hits: before.hits + hits, over: before.over + over, peak: Math.max(before.peak, hits) };
  const isShadowed = sums.shadowMode > last.sums.shadowMode;
  return {
    sums,
    ...(nowUs - dayUs >= DAY_US ? { dayUs: nowUs, day: NO_DAY, lastDay: day } : { dayUs, day, lastDay }),
    shadow: isShadowed ? { firstUs: shadow?.firstUs ?? nowUs, lastUs: nowUs } : shadow,
  };
}

// Hits of all keys together, in all minutes that one filling of the bucket may touch: no bucket had more.
function isUnused({ burst, amount, windowSeconds, isConcurrent }: Limit, { lastDay }: Trend): boolean {
  if (lastDay === undefined || lastDay.hits === 0 || amount === 0 || isConcurrent) return false;
  const looks = Math.ceil((burst / amount) * (windowSeconds / LOOK_SECONDS)) + 1;
  return Math.min(lastDay.hits, lastDay.peak * looks) * UNUSED_PART <= burst;
}

function allowsMore(limit: Limit, all: Limit): boolean {
  return !limit.isConcurrent && limit.amount * all.windowSeconds > all.amount * limit.windowSeconds;
}

function lineOf(limit: Limit): string {
  return `${textOf(limit.names.id)}: ${limitWords(limit)}`;
}
