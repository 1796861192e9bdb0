// The limit of a bucket with holds as a few numbers, from which holds can be given back where no call brings the limit.

import { CalendarWindows, type WindowEdges } from "../domain/calendar-windows.ts";
import { Algorithm, type Limit, OWN_LIMIT } from "../domain/limit.ts";

/** A calendar window has the edges of its windows in place of burst and debtMax, and of the number after them. */
export type LimitNumbers = readonly [
  algorithm: number,
  isConcurrent: number,
  holdSeconds: number,
  windowSeconds: number,
  amount: number,
  burst: number,
  debtMax: number,
  nextEndUs: number,
];
export const LIMIT_NUMBERS = 8;

export function numbersOfLimit(limit: Limit): LimitNumbers {
  const { algorithm, isConcurrent, holdSeconds, windowSeconds, amount, calendar, burst, debtMax } = limit;
  const { startUs, endUs, nextEndUs } = calendar ?? { startUs: burst, endUs: debtMax, nextEndUs: 0 };
  return [algorithm, isConcurrent ? 1 : 0, holdSeconds, windowSeconds, amount, startUs, endUs, nextEndUs];
}

/**
 * A limit with these numbers, for a store alone: without a policy or names of its own, and with no other edges than
 * these.
 */
export function limitOfNumbers(numbers: LimitNumbers): Limit {
  const [algorithm, isConcurrent, holdSeconds, windowSeconds, amount, burst, debtMax, nextEndUs] = numbers;
  const hasCalendar = algorithm === Algorithm.calendarWindow;
  return {
    ...OWN_LIMIT,
    algorithm: algorithm as Algorithm,
    amount,
    burst: hasCalendar ? amount : burst,
    windowSeconds,
    calendar: hasCalendar ? windowsOf({ startUs: burst, endUs: debtMax, nextEndUs }) : undefined,
    debtMax: hasCalendar ? amount : debtMax,
    holdSeconds,
    isConcurrent: isConcurrent === 1,
  };
}

/** Windows with no other edges than these. */
function windowsOf(edges: WindowEdges): CalendarWindows {
  const windows = new CalendarWindows("", () => edges);
  // Set now, because the windows may be written again before anybody asks for them.
  windows.turnTo(edges.startUs);
  return windows;
}
