// Adds up the metrics of several processes, series by series, in Prometheus's text format. The last counters of processes that have
// ended stay in the sums, because Prometheus takes a falling sum for a restart.

import { setImmediate as nextTurn } from "node:timers/promises";
import { joinInPieces } from "./join-in-pieces.ts";
import { numberText } from "./metric-text.ts";
import { type Aggregation, aggregationOf } from "./metrics.ts";

/** Lines read in one turn of the event loop; other work runs between turns. */
const LINES_PER_TURN = 2_000;

interface Family {
  /** The family's comment lines: HELP and TYPE. */
  head: string;
  readonly aggregation: Aggregation;
  /** True for counters and histograms. */
  readonly grows: boolean;
  readonly series: Map<string, number>;
}

/** Counters by the name of their metric, then by series. */
export type Counts = Map<string, Map<string, number>>;

/** The sum of some pages. A family keeps the comments of the first page that has it. */
export class PageSum {
  readonly #families = new Map<string, Family>();

  /** Adds a whole page; other work runs meanwhile. */
  async add(page: string): Promise<void> {
    let family: Family | undefined;
    let comments = "";
    let lines = 0;
    for (const line of linesOf(page)) {
      if (++lines % LINES_PER_TURN === 0) await nextTurn();
      const [, name = "", kind = ""] = /^# TYPE (\S+) (\S+)$/.exec(line) ?? [];
      if (name !== "") {
        family = this.#familyOf(name, kind, `${comments}${line}\n`);
        comments = "";
      } else if (line.startsWith("#")) comments += `${line}\n`;
      else if (line !== "" && family !== undefined) addSample(family, line);
    }
  }

  /** Adds counters; metrics that no page has are left out. */
  addCounts(counts: Counts): void {
    for (const [metric, { grows, series }] of this.#families) {
      if (!grows) continue;
      for (const [name, value] of counts.get(metric) ?? []) series.set(name, (series.get(name) ?? 0) + value);
    }
  }

  /** Deletes from `counts` the series of these metrics that this sum does not have. */
  forgetUnknown(counts: Counts, metrics: Iterable<string>): void {
    for (const metric of metrics) {
      const known = this.#families.get(metric)?.series;
      const series = counts.get(metric);
      for (const name of series?.keys() ?? []) if (known?.has(name) !== true) series?.delete(name);
    }
  }

  /** The counters of this sum. */
  counts(): Counts {
    const counts: Counts = new Map();
    for (const [metric, { grows, series }] of this.#families) if (grows) counts.set(metric, new Map(series));
    return counts;
  }

  /** The sum as a page, in pieces. */
  text(): AsyncGenerator<string> {
    return joinInPieces(this.#lines());
  }

  *#lines(): Generator<string> {
    for (const { head, series } of this.#families.values()) {
      yield head;
      for (const [name, value] of series) yield `${name} ${numberText(value)}\n`;
      yield "\n";
    }
  }

  #familyOf(name: string, kind: string, head: string): Family {
    let family = this.#families.get(name);
    if (family === undefined) {
      family = { head, aggregation: aggregationOf(name), grows: kind !== "gauge", series: new Map() };
      this.#families.set(name, family);
    }
    return family;
  }
}

/** Reads a page of counters into `counts`; a series on the page replaces the same series there. */
export function readCounts(page: string, counts: Counts): void {
  let series = new Map<string, number>();
  for (const line of linesOf(page)) {
    const metric = /^# TYPE (\S+)/.exec(line)?.[1];
    if (metric !== undefined) {
      series = counts.get(metric) ?? new Map();
      counts.set(metric, series);
    } else if (line !== "" && !line.startsWith("#")) {
      const at = line.lastIndexOf(" ");
      series.set(line.slice(0, at), Number(line.slice(at + 1)));
    }
  }
}

/** Raises each series of `counts` to its value in `others`, if that is higher. */
export function keepHigherCounts(counts: Counts, others: Counts): void {
  merge(counts, others, (one, other) => Math.max(one, other));
}

/** Adds each series of `others` to `counts`. */
export function addCounts(counts: Counts, others: Counts): void {
  merge(counts, others, (one, other) => one + other);
}

function merge(counts: Counts, others: Counts, join: (one: number, other: number) => number): void {
  for (const [metric, values] of others) {
    const series = counts.get(metric) ?? new Map<string, number>();
    counts.set(metric, series);
    for (const [name, value] of values) series.set(name, join(series.get(name) ?? 0, value));
  }
}

function addSample({ series, aggregation }: Family, line: string): void {
  const at = line.lastIndexOf(" ");
  const name = line.slice(0, at);
  const value = Number(line.slice(at + 1).replace("Inf", "Infinity"));
  const before = series.get(name);
  // A NaN of one process must not spoil the sum of the others.
  if (before === undefined || Number.isNaN(before)) series.set(name, value);
  else if (!Number.isNaN(value))
    series.set(name, aggregation === "sum" ? before + value : Math[aggregation](before, value));
}

function* linesOf(page: string): Generator<string> {
  for (let start = 0; start < page.length; ) {
    const end = page.indexOf("\n", start);
    yield page.slice(start, end < 0 ? page.length : end);
    start = end < 0 ? page.length : end + 1;
  }
}
