// Asks workers one thing and gathers their answers. Whoever ends, or does not answer in time, is left out.

import type { Question, ToWorker } from "./messages.ts";

/** Longest wait, in milliseconds: a worker that hangs must not delay the answers of the others any longer. */
const ANSWER_MS_MAX = 2_000;

/** What this file needs of a worker. */
interface Answerer {
  readonly number: number;
  send(message: ToWorker): void;
}

interface Asked {
  readonly worker: Answerer;
  readonly done: (answer?: { readonly answer: unknown }) => void;
}

export class Questions {
  readonly #asked = new Map<number, Asked>();
  #nextId = 1;

  /** Answers by the number of the worker, in the order of `workers`. */
  async ask(workers: readonly Answerer[], question: Question): Promise<readonly (readonly [number, unknown])[]> {
    const answers = await Promise.all(workers.map((worker) => this.#ask(worker, question)));
    return answers.filter((answer) => answer !== undefined);
  }

  /** Takes a worker's answer; ignores one that is too late. */
  take(id: number, answer: unknown): void {
    this.#asked.get(id)?.done({ answer });
  }

  /** A worker has ended and will not answer. */
  bury(worker: Answerer): void {
    for (const asked of this.#asked.values()) if (asked.worker === worker) asked.done();
  }

  #ask(worker: Answerer, question: Question): Promise<readonly [number, unknown] | undefined> {
    const id = this.#nextId++;
    return new Promise((resolve) => {
      const timer = setTimeout(() => asked.done(), ANSWER_MS_MAX);
      const asked: Asked = {
        worker,
        done: (said) => {
          clearTimeout(timer);
          this.#asked.delete(id);
          resolve(said && [worker.number, said.answer]);
        },
      };
      this.#asked.set(id, asked);
      worker.send({ kind: "ask", id, question });
    });
  }
}
