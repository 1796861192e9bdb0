// Calls of the last day that passed without a decision, by cause. Reads their counters once a second.

import { isoTime, MICROS_PER_SECOND } from "../../base/units.ts";
import type { Undecided } from "../condition.ts";

const HOUR_US = 3_600 * MICROS_PER_SECOND;
const DAY_US = 24 * HOUR_US;
/** Calls within this time are one span, so a cause has at most 1,440 spans. */
const SPAN_US = 60 * MICROS_PER_SECOND;
/** Most limits that are remembered. */
const LIMITS_MAX = 100;

interface Span {
  readonly firstUs: number;
  readonly lastUs: number;
  readonly calls: number;
}

/** Keeps them by cause; there are few causes. */
export class UndecidedCalls {
  /** What each cause had counted at the last look. */
  readonly #counted = new Map<string, number>();
  readonly #spans = new Map<string, Span[]>();
  /** When each limit was last not applied. */
  readonly #limits = new Map<string, number>();

  /** Notes what each cause has counted by now, and which limits were not applied since the last look. */
  look(counts: Iterable<readonly [cause: string, count: number]>, limits: Iterable<string>, nowUs: number): void {
    for (const [cause, count] of counts) {
      const grown = count - (this.#counted.get(cause) ?? 0);
      this.#counted.set(cause, count);
      if (grown > 0) this.#add(cause, grown, nowUs);
    }
    for (const limit of limits)
      if (this.#limits.size < LIMITS_MAX || this.#limits.has(limit)) this.#limits.set(limit, nowUs);
    for (const [limit, atUs] of this.#limits) if (atUs < nowUs - DAY_US) this.#limits.delete(limit);
  }

  /** Causes of the last day, the one with the most calls first. */
  list(nowUs: number): readonly Undecided[] {
    const rows = [...this.#spans].map(([cause, spans]) => {
      const since = (us: number) => spans.filter(({ lastUs }) => lastUs > nowUs - us);
      const callsOf = (some: readonly Span[]) => some.reduce((sum, { calls }) => sum + calls, 0);
      const day = since(DAY_US);
      return {
        cause,
        last_hour: callsOf(since(HOUR_US)),
        last_day: callsOf(day),
        first_at: isoTime(day[0]?.firstUs ?? nowUs),
        last_at: isoTime(day.at(-1)?.lastUs ?? nowUs),
      };
    });
    return rows.filter(({ last_day: calls }) => calls > 0).sort((one, other) => other.last_day - one.last_day);
  }

  /** Limits that were not applied to some of these calls; of many only the first. */
  limits(): readonly string[] {
    return [...this.#limits.keys()];
  }

  #add(cause: string, calls: number, nowUs: number): void {
    const spans = (this.#spans.get(cause) ?? []).filter(({ lastUs }) => lastUs > nowUs - DAY_US);
    const last = spans.at(-1);
    if (last !== undefined && nowUs - last.firstUs < SPAN_US)
      spans[spans.length - 1] = { ...last, lastUs: nowUs, calls: last.calls + calls };
    else spans.push({ firstUs: nowUs, lastUs: nowUs, calls });
    this.#spans.set(cause, spans);
  }
}

/** Of several processes, by cause. */
export function sumOfUndecided(one: readonly Undecided[], other: readonly Undecided[]): readonly Undecided[] {
  const sums = new Map(one.map((each) => [each.cause, each]));
  for (const each of other) {
    const known = sums.get(each.cause);
    const sum = known && {
      cause: each.cause,
      last_hour: known.last_hour + each.last_hour,
      last_day: known.last_day + each.last_day,
      first_at: known.first_at < each.first_at ? known.first_at : each.first_at,
      last_at: known.last_at > each.last_at ? known.last_at : each.last_at,
    };
    sums.set(each.cause, sum ?? each);
  }
  return [...sums.values()];
}

/** A cause in words. */
export function undecidedWords(one: Undecided): string {
  const hour = one.last_hour === one.last_day ? "" : `${one.last_hour} in the hour, `;
  return `${one.cause}: ${hour}${one.last_day} in the day, from ${one.first_at} to ${one.last_at}`;
}
