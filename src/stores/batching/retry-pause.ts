// How long to wait before a server that is away is tried again: hardly at first, longer after every attempt that fails.

const PAUSE_MS_MIN = 20;
const PAUSE_MS_MAX = 1_000;

export class RetryPause {
  #pauseMs = PAUSE_MS_MIN;

  /** The next pause, in milliseconds. Spread, so that a fleet does not come back in one instant. */
  next(): number {
    const pauseMs = this.#pauseMs * (0.5 + Math.random() / 2);
    this.#pauseMs = Math.min(PAUSE_MS_MAX, this.#pauseMs * 2);
    return pauseMs;
  }

  /** An attempt has succeeded. */
  reset(): void {
    this.#pauseMs = PAUSE_MS_MIN;
  }
}
