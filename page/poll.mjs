// Looks again and again while somebody can see it.

/** Calls `look` now and `everyMs` after each end of it; rests while the page is hidden, and looks at once when it is seen again. */
export class Poll {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;
  #isRunning = false;
  #isLooking = false;
  #look;
  #everyMs;

  /** @param {() => Promise<void>} look must not reject @param {number} everyMs */
  constructor(look, everyMs) {
    this.#look = look;
    this.#everyMs = everyMs;
    document.addEventListener("visibilitychange", () => void this.#next());
  }

  start() {
    this.#isRunning = true;
    void this.#next();
  }

  /** Until it is started again. */
  stop() {
    this.#isRunning = false;
    clearTimeout(this.#timer);
  }

  async #next() {
    clearTimeout(this.#timer);
    if (!this.#isRunning || this.#isLooking || document.hidden) return;
    this.#isLooking = true;
    await this.#look();
    this.#isLooking = false;
    clearTimeout(this.#timer);
    if (this.#isRunning) this.#timer = setTimeout(() => void this.#next(), this.#everyMs);
  }
}
