// Calls of the last day that passed without a decision, by cause. Reads their counters once a second.

import { isoTime, MICROS_PER_SECOND } from "../../base/units.ts";

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

/** Calls that passed for one cause. */
export interface Undecided {
  readonly cause: string;
  readonly last_hour: number;
  readonly last_day: number;
  /** The first and the last such call of the day, to a second. */
  readonly first_at: string;
  readonly last_at: string;
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

/** A cause in words. */
export function undecidedWords(one: Undecided): string {
  return `${one.cause}: ${one.last_hour} in the hour, ${one.last_day} in the day, from ${one.first_at} to ${one.last_at}`;
}
