// What a worker tells of itself (health, load, metrics), what it answers, and how it sends a connection away.

import { SAMPLE_MS } from "../../grpc/transport/connection-loads.ts";
import type { Condition } from "../../operate/condition.ts";
import type { Question, WorkerReport } from "../workers/messages.ts";
import type { WorkerService, WorkerView } from "../workers/worker-link.ts";
import type { AppParts } from "./app-parts.ts";
import { ownTop } from "./open-top.ts";

interface Told extends Pick<WorkerService, "page" | "counts"> {
  readonly conditions: () => readonly Condition[];
}

/**
 * `page` and `counts` give the metrics of this worker, `conditions` what is wrong with it. Begins to sample the load of its
 * connections, as one of `running.watches`.
 */
export function workerService(parts: AppParts, { page, counts, conditions }: Told): WorkerService {
  const { health, calls, running } = parts;
  const loads = () => running.grpc?.loads;
  // At the end of the turn all sockets have been read and no call of it is answered, so calls that wait for this thread count too.
  running.watches.push(setInterval(() => setImmediate(() => loads()?.sample()), SAMPLE_MS).unref());
  const answer = (question: Question) => {
    if (question.about === "top") return ownTop(parts, question);
    if (question.about === "move") return loads()?.moveAway(question.surplus);
    return report(parts, conditions());
  };
  return {
    health,
    page,
    counts,
    answer,
    load: () => ({ openStreams: loads()?.openStreams() ?? 0, calls: calls.total() }),
  };
}

function report({ reloader }: AppParts, conditions: readonly Condition[]): WorkerReport {
  const { lastError, loadedAtUs } = reloader.status();
  return {
    rules: {
      version: reloader.current?.version ?? null,
      hash: reloader.current?.hash ?? null,
      lastError: lastError?.message ?? null,
      loadedAtUs,
    },
    conditions,
  };
}

/** A worker as `/config` and `/state` show it. */
export function workerView({
  worker,
  status,
  connections,
  openStreams,
  calls,
  rules,
}: WorkerView): Readonly<Record<string, unknown>> {
  return {
    worker,
    status,
    connections,
    open_streams: openStreams,
    calls,
    rules: {
      version: rules?.version ?? null,
      hash: rules?.hash ?? null,
      last_error: rules?.lastError ?? null,
    },
  };
}
