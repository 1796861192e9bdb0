// The counters of rules in Prometheus's text format, metric by metric.

import { type MetricRow, RARE_FIELDS, RULE_METRICS } from "./metrics.ts";
import type { StatsEntry } from "./stats-book.ts";

type Field = keyof typeof RULE_METRICS;

/** The lines of each metric. `keepsHolds`: this process's memory has the holds, so it knows how many are live. */
export function* ruleLines(entries: readonly StatsEntry[], keepsHolds: boolean): Generator<Generator<string>> {
  for (const field of Object.keys(RULE_METRICS) as Field[]) {
    yield linesOf(RULE_METRICS[field], field, entries.filter(showing(field, keepsHolds)));
  }
}

function* linesOf({ name, help, kind }: MetricRow, field: Field, entries: readonly StatsEntry[]): Generator<string> {
  yield `\n# HELP ${name} ${help}\n# TYPE ${name} ${kind}\n`;
  for (const { labels, stats } of entries) yield `${name}{${labels}} ${stats[field]}\n`;
}

function showing(field: Field, keepsHolds: boolean): (entry: StatsEntry) => boolean {
  if (field === "holdsLive") return ({ stats }) => keepsHolds && (stats.holdsOpened > 0 || stats.holdsLive > 0);
  return ({ stats }) => !RARE_FIELDS.has(field) || stats[field] > 0;
}
