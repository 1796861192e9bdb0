// The metrics that only the supervisor of several workers knows, and those of its own process, as one page.

import { collectDefaultMetrics, Registry } from "prom-client";
import { type MetricRow, WORKER_METRICS } from "./metrics.ts";

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
  readonly #registry = new Registry();

  constructor() {
    collectDefaultMetrics({ register: this.#registry });
  }

  /** The page in Prometheus's text format. */
  async text({ restarts, moves, workers }: SupervisorNumbers): Promise<string> {
    const perWorker = (read: (worker: WorkerNumbers) => number) =>
      workers.map((worker) => [`{worker="${worker.number}"}`, read(worker)] as const);
    return [
      await this.#registry.metrics(),
      family(WORKER_METRICS.restarts, [["", restarts]]),
      family(WORKER_METRICS.moves, [["", moves]]),
      family(
        WORKER_METRICS.connections,
        perWorker(({ connections }) => connections),
      ),
      family(
        WORKER_METRICS.openStreams,
        perWorker(({ openStreams }) => openStreams),
      ),
      family(
        WORKER_METRICS.calls,
        perWorker(({ calls }) => calls),
      ),
    ].join("\n");
  }
}

function family({ name, help, kind }: MetricRow, samples: readonly (readonly [string, number])[]): string {
  const lines = samples.map(([labels, value]) => `${name}${labels} ${value}\n`);
  return `# HELP ${name} ${help}\n# TYPE ${name} ${kind}\n${lines.join("")}`;
}
