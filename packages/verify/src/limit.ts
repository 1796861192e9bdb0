// A limit as the user states it: all that `verify` knows of the service under test.

/** How a limit counts. `counter`: a fixed window that counts refused calls too, as envoyproxy/ratelimit does. */
export const ALGORITHMS = ["fixed_window", "sliding_window", "sliding_log", "token_bucket", "counter"] as const;
export type Algorithm = (typeof ALGORITHMS)[number];

export interface Limit {
  /** As written in the plan. */
  readonly text: string;
  /** Hits per window: the rate of a token bucket. */
  readonly amount: number;
  readonly windowMs: number;
  /** Burst of a token bucket; undefined: the amount. */
  readonly burst?: number | undefined;
  /** Undefined: whichever fits the answers. */
  readonly algorithm?: Algorithm | undefined;
  /** Hits that may be granted beyond the limit, or refused below it, as leases do. */
  readonly tolerance: number;
}

export const UNITS_MS: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1_000,
  m: 60_000,
  min: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};

/** Reads `50/s`, `1000/min` or `20/30s`; undefined if the text is something else. */
export function parseRate(text: string): Pick<Limit, "amount" | "windowMs"> | undefined {
  const [, amount = "", times = "", unit = ""] = /^([1-9]\d{0,9})\/([1-9]\d{0,5})?(ms|s|m|min|h|d)$/.exec(text) ?? [];
  const unitMs = UNITS_MS[unit];
  return unitMs === undefined ? undefined : { amount: Number(amount), windowMs: Number(times || 1) * unitMs };
}

/** The most that a caller may get at once. */
export function quotaOf({ amount, burst }: Limit): number {
  return burst ?? amount;
}

/** The algorithms that may count the limit. */
export function algorithmsOf({ algorithm, burst }: Limit): readonly Algorithm[] {
  if (algorithm !== undefined) return [algorithm];
  return burst === undefined ? ALGORITHMS : ["token_bucket"];
}

/** Whether windows have edges by the clock. */
export function hasEdges(algorithm: Algorithm): boolean {
  return algorithm === "fixed_window" || algorithm === "sliding_window" || algorithm === "counter";
}
