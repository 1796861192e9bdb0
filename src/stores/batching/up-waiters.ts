// Those who wait until a store is up: a start that is not ready before, tests.

export class UpWaiters {
  readonly #isUp: () => boolean;
  readonly #answers = new Set<() => void>();

  constructor(isUp: () => boolean) {
    this.#isUp = isUp;
  }

  /** Resolves true once the store is up, false if that takes longer than `ms`. */
  async whenUp(ms: number): Promise<boolean> {
    if (this.#isUp()) return true;
    return await new Promise<boolean>((resolve) => {
      const answer = () => {
        clearTimeout(timer);
        this.#answers.delete(answer);
        resolve(this.#isUp());
      };
      const timer = setTimeout(answer, ms);
      this.#answers.add(answer);
    });
  }

  /** The store may have come up: tells those who wait if it has. */
  look(): void {
    if (this.#isUp()) this.answerAll();
  }

  /** Tells all who wait how it is now: the store will not come up any more. */
  answerAll(): void {
    for (const answer of [...this.#answers]) answer();
  }
}
