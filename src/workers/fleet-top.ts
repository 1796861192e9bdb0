// Asks every worker for its top keys. Who ends, or does not answer in time, is left out.

import type { TopSummary } from "../telemetry/top/summary.ts";
import type { TopWanted, ToWorker } from "./messages.ts";

/** A worker that hangs must not hold up the answer of the others for longer. */
const TOP_MS = 2_000;

/** A worker as far as its top keys go. */
interface TopWorker {
  /** False before it can be asked, once it stops, and when it has ended. */
  readonly showsPages: boolean;
  send(message: ToWorker): void;
}

interface Asked {
  readonly worker: TopWorker;
  readonly answered: (top: TopSummary | undefined) => void;
}

export class FleetTop {
  readonly #asked = new Map<number, Asked>();
  #nextId = 1;

  /** The top keys of each worker that tells them. */
  async ask(workers: Iterable<TopWorker>, { window, keysMax }: TopWanted): Promise<readonly TopSummary[]> {
    const asked = [...workers].filter(({ showsPages }) => showsPages);
    const tops = await Promise.all(asked.map((worker) => this.#ask(worker, { window, keysMax })));
    return tops.filter((top) => top !== undefined);
  }

  /** Takes a worker's answer. One that comes too late is nobody's. */
  take(id: number, top: TopSummary): void {
    this.#asked.get(id)?.answered(top);
  }

  /** A worker has ended: it will not answer. What it counted is gone. */
  bury(worker: TopWorker): void {
    for (const asked of this.#asked.values()) if (asked.worker === worker) asked.answered(undefined);
  }

  #ask(worker: TopWorker, wanted: TopWanted): Promise<TopSummary | undefined> {
    const id = this.#nextId++;
    return new Promise((resolve) => {
      const answered = (top: TopSummary | undefined) => {
        clearTimeout(timer);
        this.#asked.delete(id);
        resolve(top);
      };
      const timer = setTimeout(() => answered(undefined), TOP_MS);
      this.#asked.set(id, { worker, answered });
      worker.send({ kind: "top wanted", id, ...wanted });
    });
  }
}
