// Counts durations in fixed buckets, on plain numbers, so that it is cheap enough for every call. metric-text.ts writes it.

import { type CountPlace, Counts, placeAlone } from "../../engine/base/counts.ts";
import type { CountRows } from "../../engine/base/shared-counts.ts";

/** Upper bounds of the buckets in microseconds, inclusive. 20 ms is the default timeout of Envoy's rate limit filter. */
export const LATENCY_BOUNDS_US: readonly number[] = [
  10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 20_000, 50_000, 100_000, 250_000, 500_000, 1_000_000,
  2_500_000,
];

const SUM = LATENCY_BOUNDS_US.length + 1;
/** Cells of a histogram. */
export const LATENCY_CELLS: number = SUM + 1;

/** A histogram of durations: one counter per bound, not cumulative, one for durations above all bounds, and their sum in microseconds. */
export class LatencyHistogram extends Counts {
  readonly #boundsUs = Float64Array.from(LATENCY_BOUNDS_US);

  constructor(place: CountPlace = placeAlone(LATENCY_CELLS)) {
    super(place);
  }

  /** Adds one duration in microseconds; a negative one counts as 0. Costs some 15 ns. */
  observe(us: number): void {
    const bounds = this.#boundsUs;
    let i = 0;
    while (i < bounds.length && us > (bounds[i] as number)) i++;
    this.add(i);
    if (us > 0) this.add(SUM, us);
  }

  /** The counters of all threads, or of some rows. */
  counts(rows?: CountRows["rows"]): number[] {
    return Array.from({ length: SUM }, (_, i) => this.sumAt(i, rows));
  }

  /** The sum of all durations, in microseconds. */
  get sumUs(): number {
    return this.sumAt(SUM);
  }

  /** The number of durations. */
  count(rows?: CountRows["rows"]): number {
    return this.counts(rows).reduce((sum, count) => sum + count, 0);
  }
}
