// Counts durations in fixed buckets, on plain numbers, so that it is cheap enough for every call. metric-text.ts writes
// it.

/**
 * Upper bounds of the buckets in microseconds, inclusive. 20 ms is the default timeout of Envoy's rate limit filter.
 */
export const LATENCY_BOUNDS_US: readonly number[] = [
  10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 20_000, 50_000, 100_000, 250_000, 500_000, 1_000_000,
  2_500_000,
];

/** A histogram of durations: one counter per bound, not cumulative, and one for durations above all bounds. */
export class LatencyHistogram {
  readonly #boundsUs = Float64Array.from(LATENCY_BOUNDS_US);
  readonly #counts = new Float64Array(LATENCY_BOUNDS_US.length + 1);
  /** The sum of all durations, in microseconds. */
  sumUs = 0;

  /** Adds one duration in microseconds; a negative one counts as 0. Costs some 15 ns. */
  observe(us: number): void {
    const bounds = this.#boundsUs;
    let i = 0;
    while (i < bounds.length && us > (bounds[i] as number)) i++;
    this.#counts[i] = (this.#counts[i] as number) + 1;
    if (us > 0) this.sumUs += us;
  }

  counts(): number[] {
    return [...this.#counts];
  }

  /** The number of durations. */
  count(): number {
    return this.#counts.reduce((sum, count) => sum + count, 0);
  }
}
