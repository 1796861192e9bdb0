// What a worker tells its supervisor (health, load, metrics), and how it sends a connection away.

import { SAMPLE_MS } from "../../grpc/transport/connection-loads.ts";
import type { Condition } from "../../operate/condition.ts";
import type { WorkerView } from "../workers/messages.ts";
import type { WorkerService } from "../workers/worker-link.ts";
import type { AppParts } from "./app-parts.ts";
import { ownTop } from "./open-top.ts";

interface Told extends Pick<WorkerService, "page" | "counts"> {
  readonly conditions: () => readonly Condition[];
}

/**
 * `page` and `counts` give the metrics of this process, `conditions` what is wrong with it. Begins to sample the load of its
 * connections, as one of `running.watches`.
 */
export function workerService(parts: AppParts, { page, counts, conditions }: Told): WorkerService {
  const { health, calls, reloader, running } = parts;
  const loads = () => running.grpc?.loads;
  // At the end of the turn all sockets have been read and no call of it is answered, so calls that wait for this process count too.
  running.watches.push(setInterval(() => setImmediate(() => loads()?.sample()), SAMPLE_MS).unref());
  return {
    health,
    page,
    counts,
    top: (wanted) => ownTop(parts, wanted),
    moveAway: (surplus) => loads()?.moveAway(surplus),
    report() {
      const { lastError, loadedAtUs } = reloader.status();
      return {
        openStreams: loads()?.openStreams() ?? 0,
        calls: calls.total(),
        rules: {
          version: reloader.current?.version ?? null,
          hash: reloader.current?.hash ?? null,
          lastError: lastError?.message ?? null,
          loadedAtUs,
        },
        conditions: conditions(),
      };
    },
  };
}

/** A worker as `/config` and `/state` show it. */
export function workerView({
  worker,
  pid,
  status,
  connections,
  openStreams,
  calls,
  rules,
}: WorkerView): Readonly<Record<string, unknown>> {
  return {
    worker,
    pid,
    status,
    connections,
    open_streams: openStreams ?? 0,
    calls: calls ?? 0,
    rules: {
      version: rules?.version ?? null,
      hash: rules?.hash ?? null,
      last_error: rules?.lastError ?? null,
    },
  };
}
