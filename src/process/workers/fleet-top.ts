// Asks every worker for its top keys. A worker that ends, or does not answer in time, is left out.

import type { TopSummary } from "../../operate/telemetry/top/summary.ts";
import type { TopWanted, ToWorker } from "./messages.ts";

/** Longest wait, in milliseconds: a worker that hangs must not delay the answer any longer. */
const TOP_MS = 2_000;

/** What this file reads of a worker. */
interface TopWorker {
  /** Whether it can be asked: false during its start, when it stops, and after its end. */
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

  /** The top keys of each worker that answers in time. */
  async ask(workers: Iterable<TopWorker>, { window, keysMax }: TopWanted): Promise<readonly TopSummary[]> {
    const asked = [...workers].filter(({ showsPages }) => showsPages);
    const tops = await Promise.all(asked.map((worker) => this.#ask(worker, { window, keysMax })));
    return tops.filter((top) => top !== undefined);
  }

  /** Takes a worker's answer; ignores one that is too late. */
  take(id: number, top: TopSummary): void {
    this.#asked.get(id)?.answered(top);
  }

  /** A worker has ended and will not answer; its top keys are lost. */
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
