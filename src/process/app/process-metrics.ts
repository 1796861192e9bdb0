// The page of metrics: those of metrics-table.ts, those of rules, and those of Node.js.

import { joinInPieces } from "../../operate/telemetry/join-in-pieces.ts";
import { latencyText, metricText, ruleLines } from "../../operate/telemetry/metric-text.ts";
import { MemoryStore } from "../../stores/memory/memory-store.ts";
import type { AppParts } from "./app-parts.ts";
import type { Metric, MetricSources } from "./metric-rows.ts";
import { METRICS } from "./metrics-table.ts";
import { topRefused } from "./open-top.ts";

/** All metrics, in pieces, because there may be many rules. `ofNode` reads those of Node.js. */
export async function metricsText(parts: AppParts, ofNode: () => Promise<string>): Promise<Generator<string>> {
  const refused = topRefused(parts, parts.settings.topKeysShown);
  const [node, limitCounts] = await Promise.all([ofNode(), parts.runtimeLimits.source.counts()]);
  const others = textOf(Object.values(METRICS), { ...parts, refused, limitCounts });
  return piecesOf(parts, `${node}\n${others}`);
}

function* piecesOf({ series, store }: AppParts, others: string): Generator<string> {
  yield others;
  // Listed once and not per metric: most rules may have no series, and a search that yields nothing leaves no turn to
  // other work.
  const entries = [...series.entries()];
  for (const lines of ruleLines(entries, store instanceof MemoryStore)) yield* joinInPieces(lines);
}

function textOf(metrics: readonly Metric[], sources: MetricSources): string {
  const texts = metrics.map((metric) =>
    metric.kind === "histogram" ? latencyText(metric, metric.read(sources)) : metricText(metric, metric.read(sources)),
  );
  return texts.join("\n");
}
