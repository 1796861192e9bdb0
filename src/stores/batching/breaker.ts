// A circuit breaker: stops calls to a store that keeps failing, and finds out by single batches when it answers again. Pure: the caller gives
// times and outcomes, and is told of state changes.

/** When a breaker opens and how it closes. */
export interface BreakerOptions {
  /** Older outcomes are forgotten. */
  readonly windowUs: number;
  /** Least number of outcomes in the window that can open the breaker. */
  readonly outcomesMin: number;
  /** The share of failed outcomes in the window that opens the breaker; above 0, at most 1. */
  readonly failureShare: number;
  /** Time between opening and the next probe. */
  readonly pauseUs: number;
}

export const BREAKER_DEFAULTS: BreakerOptions = {
  windowUs: 1_000_000,
  outcomesMin: 20,
  failureShare: 0.5,
  pauseUs: 250_000,
};

export type BreakerState = "closed" | "open" | "probing";

const SLICES = 10;

/**
 * Closed, it admits everything and counts outcomes. Open, it admits nothing until the pause is over. Probing, it admits one batch, whose
 * outcome closes or opens it; outcomes of earlier batches don't count then.
 */
export class Breaker {
  readonly #options: BreakerOptions;
  readonly #onChange: (state: BreakerState) => void;
  #state: BreakerState = "closed";
  #openedUs = 0;
  // The window has ten slices; a slice is reused after a whole window.
  readonly #succeeded = new Float64Array(SLICES);
  readonly #failed = new Float64Array(SLICES);
  readonly #sliceNumbers = new Float64Array(SLICES).fill(-1);

  constructor(options: BreakerOptions, onChange: (state: BreakerState) => void) {
    this.#options = options;
    this.#onChange = onChange;
  }

  get state(): BreakerState {
    return this.#state;
  }

  /** Whether takes may be sent. After the pause this begins a probe: the caller sends one batch, and marks it as the probe. */
  admits(nowUs: number): boolean {
    if (this.#state === "open" && nowUs - this.#openedUs >= this.#options.pauseUs) this.#change("probing");
    return this.#state !== "open";
  }

  /** Counts outcomes. Those of a probe decide at once: one success closes the breaker; failures without a success open it. */
  record(outcomes: { succeeded: number; failed: number; isProbe: boolean }, nowUs: number): void {
    const { succeeded, failed, isProbe } = outcomes;
    if (this.#state === "closed") {
      const slice = this.#sliceOf(nowUs);
      this.#succeeded[slice] = (this.#succeeded[slice] ?? 0) + succeeded;
      this.#failed[slice] = (this.#failed[slice] ?? 0) + failed;
      if (failed > 0 && this.#hasFailedTooOften(nowUs)) this.#open(nowUs);
    } else if (this.#state === "probing" && isProbe) {
      if (succeeded > 0) this.#close();
      else if (failed > 0) this.#open(nowUs);
    }
  }

  /** Closes the breaker: the server has just answered, though it settled nothing. */
  noteAlive(): void {
    if (this.#state !== "closed") this.#close();
  }

  /** Ends the pause early, for instance because of a new connection: the cause of the failures may be gone. */
  endPause(): void {
    if (this.#state === "open") this.#openedUs = Number.NEGATIVE_INFINITY;
  }

  #open(nowUs: number): void {
    this.#openedUs = nowUs;
    this.#change("open");
  }

  #close(): void {
    this.#sliceNumbers.fill(-1);
    this.#change("closed");
  }

  #change(state: BreakerState): void {
    this.#state = state;
    this.#onChange(state);
  }

  #sliceOf(nowUs: number): number {
    const number = Math.floor((nowUs * SLICES) / this.#options.windowUs);
    const slice = number % SLICES;
    if (this.#sliceNumbers[slice] !== number) {
      this.#sliceNumbers[slice] = number;
      this.#succeeded[slice] = 0;
      this.#failed[slice] = 0;
    }
    return slice;
  }

  #hasFailedTooOften(nowUs: number): boolean {
    const newest = Math.floor((nowUs * SLICES) / this.#options.windowUs);
    let succeeded = 0;
    let failed = 0;
    for (let slice = 0; slice < SLICES; slice++) {
      const number = this.#sliceNumbers[slice] ?? -1;
      if (number < 0 || number <= newest - SLICES) continue;
      succeeded += this.#succeeded[slice] ?? 0;
      failed += this.#failed[slice] ?? 0;
    }
    const outcomes = succeeded + failed;
    return outcomes >= this.#options.outcomesMin && failed >= outcomes * this.#options.failureShare;
  }
}
