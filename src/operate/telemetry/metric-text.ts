// Metrics in Prometheus's text format, from plain numbers that are read on request, off the decision path.
// node-metrics.ts has the metrics of Node.js and of the process.

import { LATENCY_BOUNDS_US, type LatencyHistogram } from "./latency-histogram.ts";
import { type MetricRow, RULE_METRICS } from "./metrics.ts";
import { labelText, type StatsEntry } from "./stats-book.ts";

/** The Content-Type of a page of metrics. */
export const METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8";

/** A value of a metric, with its labels. */
export type Sample = readonly [value: number, labels?: Readonly<Record<string, string>>];

/** What the text of a metric needs of its row. */
export type MetricHead = Pick<MetricRow, "name" | "help" | "kind">;

type Field = keyof typeof RULE_METRICS;

/**
 * A metric's lines; only the head without a value. Adds up values with the same labels, because no series may come
 * twice.
 */
export function metricText(head: MetricHead, values: number | undefined | Iterable<Sample>): string {
  if (values === undefined) return headOf(head);
  if (typeof values === "number") return `${headOf(head)}${head.name} ${numberText(values)}\n`;
  const series = new Map<string, number>();
  for (const [value, labels = {}] of values) {
    const name = `${head.name}${labelsText(labels)}`;
    series.set(name, (series.get(name) ?? 0) + value);
  }
  return headOf(head) + [...series].map(([name, value]) => `${name} ${numberText(value)}\n`).join("");
}

/** Counts by the value of one label. */
export function byLabel(
  label: string,
  counts: Iterable<readonly [string, number]>,
  labels: Readonly<Record<string, string>> = {},
): Sample[] {
  return [...counts].map(([value, count]): Sample => [count, { ...labels, [label]: value }]);
}

/** A histogram's lines, for each of its sets of labels. */
export function latencyText(
  head: MetricHead,
  latencies: readonly (readonly [LatencyHistogram, Readonly<Record<string, string>>])[],
): string {
  const { name } = head;
  let text = headOf(head);
  for (const [latency, labels] of latencies) {
    let sum = 0;
    for (const [i, count] of latency.counts().entries()) {
      sum += count;
      const boundUs = LATENCY_BOUNDS_US[i];
      const le = boundUs === undefined ? "+Inf" : String(boundUs / 1_000_000);
      text += `${name}_bucket${labelsText({ ...labels, le })} ${sum}\n`;
    }
    text += `${name}_sum${labelsText(labels)} ${latency.sumUs / 1_000_000}\n${name}_count${labelsText(labels)} ${sum}\n`;
  }
  return text;
}

/**
 * The lines of each metric of rules. `keepsHolds`: this process's memory has the holds, so it knows how many are live.
 */
export function* ruleLines(entries: readonly StatsEntry[], keepsHolds: boolean): Generator<Generator<string>> {
  for (const field of Object.keys(RULE_METRICS) as Field[])
    yield linesOf(field, entries.filter(showing(field, keepsHolds)));
}

function* linesOf(field: Field, entries: readonly StatsEntry[]): Generator<string> {
  const row = RULE_METRICS[field];
  yield `\n${headOf(row)}`;
  for (const { labels, stats } of entries) yield `${row.name}{${labels}} ${stats[field]}\n`;
}

function showing(field: Field, keepsHolds: boolean): (entry: StatsEntry) => boolean {
  if (field === "holdsLive") {
    return ({ stats }) => keepsHolds && (stats.holdsOpened > 0 || stats.holdsLive > 0);
  }
  return ({ stats }) => !RULE_METRICS[field].isRare || stats[field] > 0;
}

function headOf({ name, help, kind }: MetricHead): string {
  return `# HELP ${name} ${help}\n# TYPE ${name} ${kind}\n`;
}

function labelsText(labels: Readonly<Record<string, string>>): string {
  const written = Object.entries(labels).map(([name, value]) => labelText(name, value));
  return written.length === 0 ? "" : `{${written.join(",")}}`;
}

/** A number as Prometheus reads it. */
function numberText(value: number): string {
  if (Number.isFinite(value)) return String(value);
  return Number.isNaN(value) ? "NaN" : value > 0 ? "+Inf" : "-Inf";
}
