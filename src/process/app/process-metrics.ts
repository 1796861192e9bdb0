// The page of metrics: those of metrics-table.ts, those of rules, and those of Node.js.

import { joinInPieces } from "../../operate/telemetry/join-in-pieces.ts";
import { latencyText, metricText, ruleLines } from "../../operate/telemetry/metric-text.ts";
import { type NodeMetrics, nodeText } from "../../operate/telemetry/node-metrics.ts";
import { MemoryStore } from "../../stores/memory/memory-store.ts";
import type { AppParts } from "./app-parts.ts";
import type { Metric, MetricSources } from "./metric-rows.ts";
import { METRICS, WORKER_METRICS } from "./metrics-table.ts";
import { topRefused } from "./open-top.ts";

/** All metrics, in pieces, because there may be many rules. `ofNode` reads those of Node.js in this thread. */
export async function metricsText(
  parts: AppParts,
  ofNode: () => Promise<NodeMetrics>,
): Promise<AsyncGenerator<string>> {
  const { link, settings } = parts;
  const [node, refused, limitCounts] = await Promise.all([
    link?.ask({ about: "node" }).then((all) => [...all.values()]) ?? ofNode().then((own) => [own]),
    topRefused(parts, settings.topKeysShown),
    parts.runtimeLimits.source.counts(),
  ]);
  const ofWorkers = link === undefined ? [] : Object.values(WORKER_METRICS);
  const others = textOf([...Object.values(METRICS), ...ofWorkers], { ...parts, refused, limitCounts });
  return piecesOf(parts, `${await nodeText(node)}\n${others}`);
}

async function* piecesOf({ series, store }: AppParts, others: string): AsyncGenerator<string> {
  yield others;
  // Listed once and not per metric: most rules may have no series, and a search that yields nothing leaves no turn to other work.
  const entries = [...series.entries()];
  for (const lines of ruleLines(entries, store instanceof MemoryStore)) yield* joinInPieces(lines);
}

/** Notes what this thread counts for itself, so that other threads show it. */
export function noteOwnMetrics(parts: AppParts): void {
  for (const { read } of Object.values(METRICS)) read({ ...parts, refused: [], limitCounts: undefined });
}

function textOf(metrics: readonly Metric[], sources: MetricSources): string {
  const texts = metrics.map((metric) =>
    metric.kind === "histogram" ? latencyText(metric, metric.read(sources)) : metricText(metric, metric.read(sources)),
  );
  return texts.join("\n");
}
