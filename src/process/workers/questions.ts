// Questions to one other thread, and their answers.

import type { Question } from "./messages.ts";

/** What is sent to the other thread, which sends the answer back with the id. */
type Ask = (question: { readonly kind: "ask"; readonly id: number; readonly question: Question }) => void;

export class Questions {
  readonly #send: Ask;
  readonly #waitMs: number;
  readonly #asked = new Map<number, (answer: unknown) => void>();
  #nextId = 1;

  /** `waitMs` bounds how long a thread that hangs delays an answer to which others contribute. */
  constructor(send: Ask, waitMs: number) {
    this.#send = send;
    this.#waitMs = waitMs;
  }

  /** Resolves to the answer, or to undefined if none comes in time. */
  ask(question: Question): Promise<unknown> {
    const id = this.#nextId++;
    return new Promise((resolve) => {
      const timer = setTimeout(() => this.take(id, undefined), this.#waitMs);
      this.#asked.set(id, (answer) => {
        clearTimeout(timer);
        this.#asked.delete(id);
        resolve(answer);
      });
      this.#send({ kind: "ask", id, question });
    });
  }

  /** Takes an answer; ignores one that is too late. */
  take(id: number, answer: unknown): void {
    this.#asked.get(id)?.(answer);
  }

  /** The other thread has ended and will not answer. */
  end(): void {
    for (const done of this.#asked.values()) done(undefined);
  }
}
