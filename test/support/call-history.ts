// Histories of calls for tests: samples of five seconds that end at AT.

import type { HistoryView } from "../../src/operate/telemetry/rate-history.ts";

export const AT = "2026-11-27T17:15:00.000Z";

/**
 * How many calls were allowed and refused in each sample, and how many of the refused were blocked and of the allowed
 * shadowed.
 */
export function historyOf(
  calls: readonly (readonly [allowed: number, refused: number, blocked?: number, shadowed?: number])[],
): HistoryView {
  const [allowed, refused] = [calls.map(([count]) => count), calls.map(([, count]) => count)];
  const [none, unknown] = [calls.map(() => 0), calls.map(() => null)];
  const [blocked, shadowed] = [calls.map(([, , count = 0]) => count), calls.map(([, , , count = 0]) => count)];
  return {
    at: AT,
    span_seconds: 900,
    seconds: calls.map(() => 5),
    calls: { allowed, refused, degraded: none, errors: none, blocked, shadowed, passed: none },
    times_us: { decision_p50: unknown, decision_p99: unknown, store_p50: unknown, store_p99: unknown },
    limits: { "edge/user": { hits: allowed.map((count, i) => count + (refused[i] ?? 0)), refused } },
  };
}

export const many = <T>(count: number, value: T): T[] => Array.from({ length: count }, () => value);
