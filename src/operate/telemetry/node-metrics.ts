// The metrics of Node.js and of the process that prom-client has, of one thread or joined of several. The package is loaded when they are
// first read: it takes several megabytes.

import type { Registry } from "prom-client";

/** A metric of one thread: `aggregator` says how those of several become one. */
type NodeMetric = Awaited<ReturnType<Registry["getMetricsAsJSON"]>>[number];

/** What one thread has read. */
export type NodeMetrics = readonly NodeMetric[];

/** Returns what reads those of this thread and of the process. The event loop and the garbage collector are measured from the first time on. */
export function openNodeMetrics(): () => Promise<NodeMetrics> {
  let register: Registry | undefined;
  return async () => {
    const { collectDefaultMetrics, Registry } = await import("prom-client");
    if (register === undefined) {
      register = new Registry();
      collectDefaultMetrics({ register });
    }
    const metrics = await register.getMetricsAsJSON();
    return metrics.map((metric) => ({ ...metric, aggregator: aggregatorOf(metric) }));
  };
}

/** The metrics of some threads of a process as text. */
export async function nodeText(threads: readonly NodeMetrics[]): Promise<string> {
  const { AggregatorRegistry } = await import("prom-client");
  return AggregatorRegistry.aggregate([...threads]).metrics();
}

function aggregatorOf({ name }: NodeMetric): NodeMetric["aggregator"] {
  if (name.startsWith("process_") || name === "nodejs_version_info") return "first";
  // Of an event loop that is late, not of all loops in the mean.
  if (name.startsWith("nodejs_eventloop_lag")) return name.includes("_min_") ? "min" : "max";
  return "sum";
}
