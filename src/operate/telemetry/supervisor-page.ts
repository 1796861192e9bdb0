// The metrics that only the supervisor of several workers knows, and those of its own process, as one page.

import { metricText, openProcessMetrics, type Sample } from "./metric-text.ts";
import { WORKER_METRICS } from "./metrics.ts";

/** A worker's last report. */
interface WorkerNumbers {
  readonly number: number;
  readonly connections: number;
  readonly openStreams: number;
  readonly calls: number;
}

/** The supervisor's counters. */
interface SupervisorNumbers {
  readonly restarts: number;
  readonly moves: number;
  readonly workers: readonly WorkerNumbers[];
}

export class SupervisorPage {
  readonly #ofProcess = openProcessMetrics();

  /** The page in Prometheus's text format. */
  async text({ restarts, moves, workers }: SupervisorNumbers): Promise<string> {
    const perWorker = (field: "connections" | "openStreams" | "calls") =>
      metricText(
        WORKER_METRICS[field],
        workers.map((worker): Sample => [worker[field], { worker: String(worker.number) }]),
      );
    return [
      await this.#ofProcess(),
      metricText(WORKER_METRICS.restarts, restarts),
      metricText(WORKER_METRICS.moves, moves),
      perWorker("connections"),
      perWorker("openStreams"),
      perWorker("calls"),
    ].join("\n");
  }
}
