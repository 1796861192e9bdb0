// Gauges, and counters that parts of a thread keep themselves. Each thread copies its own into its row once a second and before it shows
// a page, so numbers of other threads are at most a second old, and a killed thread loses at most a second.

import { placeOf } from "../../engine/base/counts.ts";
import { getOrInsert } from "../../engine/base/get-or-insert.ts";
import type { SharedCounts } from "../../engine/base/shared-counts.ts";

/** How the values of several threads become one. */
export type Aggregation = "sum" | "max" | "min";

/** A metric that each thread knows only for itself. Counters are always added up. */
interface OwnMetric {
  readonly name: string;
  readonly kind: "counter" | "gauge";
  readonly aggregation: Aggregation;
}

/** Cells of a number: its value, and for which start of the row's thread it is. A gauge of an earlier start is void. */
const CELLS = 2;

interface Known {
  readonly at: number;
  /** What earlier threads of this row have counted. */
  readonly base: number;
}

export class ThreadNumbers {
  readonly #counts: SharedCounts;
  readonly #known = new Map<string, Known>();

  constructor(counts: SharedCounts) {
    this.#counts = counts;
  }

  /** Notes this thread's value of a metric, and returns the value over all threads. `labels` tell values of one metric apart. */
  share({ name, kind, aggregation }: OwnMetric, value: number, labels = ""): number {
    const { own, rows, row } = this.#counts;
    const { at, base } = this.#knownOf(`${name}{${labels}}`, kind === "counter");
    own[at] = base + value;
    own[at + 1] = this.#counts.startsOf(row);
    if (kind === "counter") return rows.reduce((sum, cells) => sum + (cells[at] as number), 0);
    const living = this.#counts.living().filter((each) => rows[each]?.[at + 1] === this.#counts.startsOf(each));
    const values = living.map((each) => rows[each]?.[at] as number);
    return aggregation === "sum" ? values.reduce((sum, each) => sum + each, 0) : Math[aggregation](...values);
  }

  #knownOf(series: string, grows: boolean): Known {
    return getOrInsert(this.#known, series, () => {
      const { at } = placeOf(this.#counts, series, CELLS);
      return { at, base: grows ? (this.#counts.own[at] as number) : 0 };
    });
  }
}
