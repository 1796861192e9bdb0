// The pause before the next attempt to reach a server that is away: short at first, longer after every failed attempt.

const PAUSE_MS_MIN = 20;
const PAUSE_MS_MAX = 1_000;

export class RetryPause {
  #pauseMs = PAUSE_MS_MIN;

  /**
   * The next pause, in milliseconds; random within a factor of two, so that many processes don't come back at the same
   * instant.
   */
  next(): number {
    const pauseMs = this.#pauseMs * (0.5 + Math.random() / 2);
    this.#pauseMs = Math.min(PAUSE_MS_MAX, this.#pauseMs * 2);
    return pauseMs;
  }

  /** Notes that an attempt succeeded. */
  reset(): void {
    this.#pauseMs = PAUSE_MS_MIN;
  }
}
