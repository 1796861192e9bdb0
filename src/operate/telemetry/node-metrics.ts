// The metrics of Node.js and of the process, from prom-client.

import { collectDefaultMetrics, Registry } from "prom-client";

/** Begins to measure, with a probe of the event loop. Returns what reads the metrics as text. */
export function openNodeMetrics(): () => Promise<string> {
  const register = new Registry();
  collectDefaultMetrics({ register });
  return () => register.metrics();
}
