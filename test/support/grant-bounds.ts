// What a token bucket must and may grant to callers that keep asking, by the times of their calls: a busy machine makes calls
// late, and then the bounds move with it.

/** Counts the calls of many callers on one bucket, all of cost 1. */
export class GrantBounds {
  readonly #burst: number;
  readonly #perMs: number;
  #allowed = 0;
  #firstStartMs = Number.POSITIVE_INFINITY;
  #firstEndMs = Number.POSITIVE_INFINITY;
  #lastStartMs = 0;
  #lastEndMs = 0;
  #longestPauseMs = 0;

  /** The bucket is full when the first call comes. */
  constructor(burst: number, perSecond: number) {
    this.#burst = burst;
    this.#perMs = perSecond / 1_000;
  }

  /** Makes a call; `ask` resolves to whether it was granted. */
  async call(ask: () => Promise<boolean>): Promise<void> {
    const startMs = performance.now();
    this.#firstStartMs = Math.min(this.#firstStartMs, startMs);
    this.#lastStartMs = Math.max(this.#lastStartMs, startMs);
    if (await ask()) this.#allowed++;
    const endMs = performance.now();
    if (this.#firstEndMs <= endMs) this.#longestPauseMs = Math.max(this.#longestPauseMs, endMs - this.#lastEndMs);
    this.#firstEndMs = Math.min(this.#firstEndMs, endMs);
    this.#lastEndMs = endMs;
  }

  get allowed(): number {
    return this.#allowed;
  }

  /** No more may be granted than burst and rate give from before the first call to after the last. */
  get most(): number {
    return this.#burst + Math.floor(this.#perMs * (this.#lastEndMs - this.#firstStartMs));
  }

  /**
   * No less may be granted: all that came while there were calls, but for the last token, which may come too late, and what a
   * pause in which nobody was answered may have let go to waste.
   */
  get least(): number {
    const askedMs = this.#lastStartMs - this.#firstEndMs - this.#longestPauseMs;
    return this.#burst + this.#perMs * askedMs - 1;
  }
}
