// What a worker reports (health, load, metrics) and answers.

import type { Condition } from "../../operate/condition.ts";
import type { NodeMetrics } from "../../operate/telemetry/node-metrics.ts";
import type { StoreShared, WorkerReport } from "../workers/messages.ts";
import type { WorkerLink, WorkerService, WorkerView } from "../workers/worker-link.ts";
import type { AppParts } from "./app-parts.ts";
import { ownTop } from "./open-top.ts";
import { noteOwnMetrics } from "./process-metrics.ts";

/** Time between two samples of a worker's load, and after which the weight of a sample has fallen to 1/e. */
const SAMPLE_MS = 50;
const MEMORY_MS = 2_500;
const WEIGHT = 1 - Math.exp(-SAMPLE_MS / MEMORY_MS);

/**
 * Starts to sample open streams, as one of `running.watches`. `conditions` says what is wrong with this worker, `ofNode` reads its thread's
 * metrics.
 */
export function workerService(
  parts: AppParts,
  link: WorkerLink,
  conditions: () => readonly Condition[],
  ofNode: () => Promise<NodeMetrics>,
): WorkerService {
  const { health, running } = parts;
  let openStreams = 0;
  const sample = () => {
    openStreams += ((running.grpc?.openStreams?.() ?? 0) - openStreams) * WEIGHT;
  };
  // At the end of the turn all sockets have been read and no call of it is answered, so calls that wait for this thread count too.
  running.watches.push(setInterval(() => setImmediate(sample), SAMPLE_MS).unref());
  return {
    health,
    answer(question) {
      if (question.about === "top") return ownTop(parts, question);
      if (question.about === "history") return parts.history.view();
      return question.about === "node" ? ofNode() : report(parts, conditions());
    },
    note() {
      link.numbers.setOpenStreams(link.number, openStreams);
      noteOwnMetrics(parts);
    },
  };
}

/** Undefined in workers that don't sync with the store. */
export function storeShared({ runtimeLimits: { sync }, deployment }: AppParts): StoreShared | undefined {
  return sync && { failures: sync.failures, trouble: sync.trouble ?? null, processes: deployment.processes() };
}

function report(parts: AppParts, conditions: readonly Condition[]): WorkerReport {
  const { reloader } = parts;
  const { lastError, loadedAtUs } = reloader.status();
  return {
    rules: {
      version: reloader.current?.version ?? null,
      hash: reloader.current?.hash ?? null,
      lastError: lastError?.message ?? null,
      loadedAtUs,
    },
    conditions,
    shared: storeShared(parts),
  };
}

/** Workers as `/config` and `/state` show them. */
export function shownWorkers(
  { calls, counts }: AppParts,
  views: readonly WorkerView[],
): readonly Readonly<Record<string, unknown>>[] {
  return views.map(({ worker, status, connections, openStreams, rules }) => ({
    worker,
    status,
    connections,
    open_streams: openStreams,
    calls: calls.total(counts.rows.slice(worker - 1, worker)),
    rules: {
      version: rules?.version ?? null,
      hash: rules?.hash ?? null,
      last_error: rules?.lastError ?? null,
    },
  }));
}
