// The metrics of all workers as one page: asks each for its own, adds them up, and keeps what ended ones had counted.

import { type EndedCounts, PageSum } from "../telemetry/sum-pages.ts";
import type { WorkerProcess } from "./worker-process.ts";

/** A worker that has not sent its page by then is shown as it was last time: one that hangs must not blind the others. */
const PAGE_MS = 2_000;

interface Wanted {
  readonly worker: WorkerProcess;
  text: string;
  readonly done: () => void;
}

export interface FleetPageSources {
  /** Those that are to be asked. */
  readonly workers: () => Iterable<WorkerProcess>;
  /** The page of the supervisor itself. */
  readonly own: () => Promise<string>;
}

export class FleetPage {
  readonly #sources: FleetPageSources;
  readonly #wanted = new Map<number, Wanted>();
  readonly #ended: EndedCounts = new Map();
  /** What was begun last; sums and burials don't mix. */
  #last: Promise<unknown> = Promise.resolve();
  #nextId = 1;

  constructor(sources: FleetPageSources) {
    this.#sources = sources;
  }

  /** The page of all, piece by piece. */
  async *text(): AsyncGenerator<string> {
    const sum = await this.#afterLast(() => this.#gather());
    yield* sum.text();
  }

  /** Takes part of a worker's page. */
  take(id: number, text: string, isLast: boolean): void {
    const wanted = this.#wanted.get(id);
    if (wanted === undefined) return;
    wanted.text += text;
    if (!isLast) return;
    wanted.worker.lastPage = wanted.text;
    wanted.done();
  }

  /** A worker has ended: its counters stay in the sum as it said them last. */
  async bury(worker: WorkerProcess): Promise<void> {
    for (const wanted of this.#wanted.values()) if (wanted.worker === worker) wanted.done();
    await this.#afterLast(async () => {
      const sum = new PageSum();
      await sum.add(worker.lastPage);
      sum.bury(this.#ended);
    });
  }

  #afterLast<T>(run: () => Promise<T>): Promise<T> {
    const done = this.#last.then(run);
    this.#last = done.catch(() => undefined);
    return done;
  }

  async #gather(): Promise<PageSum> {
    const workers = [...this.#sources.workers()];
    await Promise.all(workers.map((worker) => this.#ask(worker)));
    const sum = new PageSum();
    for (const worker of workers) if (worker.isAlive) await sum.add(worker.lastPage);
    await sum.add(await this.#sources.own());
    sum.addEnded(this.#ended);
    return sum;
  }

  #ask(worker: WorkerProcess): Promise<void> {
    const id = this.#nextId++;
    return new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer);
        this.#wanted.delete(id);
        resolve();
      };
      const timer = setTimeout(done, PAGE_MS);
      this.#wanted.set(id, { worker, text: "", done });
      worker.send({ kind: "page wanted", id });
    });
  }
}
