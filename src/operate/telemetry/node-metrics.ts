// The metrics of Node.js and of the process from prom-client, of one thread or joined from several.

import { AggregatorRegistry, collectDefaultMetrics, Registry } from "prom-client";

/** A metric of one thread. `aggregator` says how to join it with other threads'. */
type NodeMetric = Awaited<ReturnType<Registry["getMetricsAsJSON"]>>[number];

/** What one thread has read. */
export type NodeMetrics = readonly NodeMetric[];

/** Begins to measure this thread and the process, with a probe of the event loop. Returns what reads them. */
export function openNodeMetrics(): () => Promise<NodeMetrics> {
  const register = new Registry();
  collectDefaultMetrics({ register });
  return async () => {
    const metrics = await register.getMetricsAsJSON();
    return metrics.map((metric) => ({ ...metric, aggregator: aggregatorOf(metric) }));
  };
}

/** The metrics of some threads of a process as text. */
export function nodeText(threads: readonly NodeMetrics[]): Promise<string> {
  return AggregatorRegistry.aggregate([...threads]).metrics();
}

function aggregatorOf({ name }: NodeMetric): NodeMetric["aggregator"] {
  if (name.startsWith("process_") || name === "nodejs_version_info") return "first";
  // The event loop that is latest, not the mean of all.
  if (name.startsWith("nodejs_eventloop_lag")) return name.includes("_min_") ? "min" : "max";
  return "sum";
}
