// Notes on limits that work as written, though perhaps not as intended, from what they count.

import { getOrInsert } from "../../base/get-or-insert.ts";
import { isoTime, MICROS_PER_SECOND } from "../../base/units.ts";
import type { Limit } from "../../engine/domain/limit.ts";
import { textOf } from "../../engine/domain/request.ts";
import type { LimitStats, RuleCount } from "../../engine/domain/stats.ts";
import { limitWords } from "../../engine/rules/limit-words.ts";
import type { DomainRules } from "../../engine/rules/rule-set.ts";

const DAY_US = 86_400 * MICROS_PER_SECOND;
/** Shadow mode that has hidden refusals for this long was probably forgotten. */
const SHADOW_US = 14 * DAY_US;
/** A limit that never came above one part in so many is probably too high to protect anything. */
const UNUSED_PART = 100;
/** The shortest time between two looks. */
const LOOK_SECONDS = 5;
/** Limits of one kind that are named. */
const NAMED_MAX = 20;

/** What a limit has counted in a day: hits, refusals, and the most hits between two looks. */
interface Day {
  readonly hits: number;
  readonly over: number;
  readonly peak: number;
}

interface Trend {
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
const NO_TREND: Trend = { dayUs: Number.POSITIVE_INFINITY, day: NO_DAY, lastDay: undefined, shadow: undefined };

type Tell = (limit: Limit, trend: Trend, domain: DomainRules, nowUs: number) => string | undefined;

/** The notes: each returns the line of a limit that it is true of. */
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

/** Follows limits over time. */
export class LimitTrends {
  /** Of limits that have counted something. */
  readonly #trends = new WeakMap<LimitStats, Trend>();
  #lines = new Map<string, string[]>();
  /** As of the last time that all limits were judged. */
  information: readonly Information[] = [];

  /** Notes what a limit has counted since the last look, at `lastUs`. */
  note({ stats }: Limit, { hits, refused, shadowed }: RuleCount, lastUs: number, nowUs: number): void {
    const { dayUs, day, lastDay, shadow } = this.#trends.get(stats) ?? { ...NO_TREND, dayUs: lastUs };
    this.#trends.set(stats, {
      dayUs,
      day: { hits: day.hits + hits, over: day.over + refused, peak: Math.max(day.peak, hits) },
      lastDay,
      shadow: shadowed > 0 ? { firstUs: shadow?.firstUs ?? nowUs, lastUs: nowUs } : shadow,
    });
  }

  /** Judges a limit by what was noted of it; then comes `end`. */
  judge(limit: Limit, domain: DomainRules, nowUs: number): void {
    let trend = this.#trends.get(limit.stats) ?? NO_TREND;
    if (nowUs - trend.dayUs >= DAY_US) {
      trend = { ...trend, dayUs: nowUs, day: NO_DAY, lastDay: trend.day };
      this.#trends.set(limit.stats, trend);
    }
    for (const [says, tell] of TELLS) {
      const line = tell(limit, trend, domain, nowUs);
      if (line !== undefined) getOrInsert(this.#lines, says, () => []).push(line);
    }
  }

  /** All limits have been judged. */
  end(): void {
    this.information = [...this.#lines].map(([says, lines]) => {
      const more = lines.length > NAMED_MAX ? [`and ${lines.length - NAMED_MAX} more`] : [];
      return { says, details: [...lines.slice(0, NAMED_MAX), ...more] };
    });
    this.#lines = new Map();
  }
}

// Hits of all keys together, between all looks that one filling of the bucket may touch: no bucket had more.
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
