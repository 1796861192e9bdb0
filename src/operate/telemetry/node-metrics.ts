// The metrics of Node.js and of the process that prom-client has, of one thread or joined of several.

import { AggregatorRegistry, collectDefaultMetrics, Registry } from "prom-client";

/** A metric of one thread: `aggregator` says how those of several become one. */
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
  // Of an event loop that is late, not of all loops in the mean.
  if (name.startsWith("nodejs_eventloop_lag")) return name.includes("_min_") ? "min" : "max";
  return "sum";
}
