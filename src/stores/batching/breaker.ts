// A circuit breaker: stops asking a store that keeps failing, and finds out with single batches when it answers again.
// Pure: time and outcomes come from the caller, state changes go to the caller.

/** When a breaker opens and how it closes. */
export interface BreakerOptions {
  /** Outcomes older than this are forgotten. */
  readonly windowUs: number;
  /** Fewer outcomes than this in the window never open it. */
  readonly outcomesMin: number;
  /** Opens when at least this share of the window's outcomes failed; above 0, at most 1. */
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
 * Closed, it lets all through and counts. Open, it lets nothing through until the pause is over. Probing, it lets one
 * batch through, whose outcome closes or opens it; outcomes of earlier batches don't count then.
 */
export class Breaker {
  readonly #options: BreakerOptions;
  readonly #onChange: (state: BreakerState) => void;
  #state: BreakerState = "closed";
  #openedUs = 0;
  // The window is ten slices; a slice is reused when its time comes round again.
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

  /** True when takes may be sent. When a pause is over this begins the probe: the caller sends one batch, marked as such. */
  admits(nowUs: number): boolean {
    if (this.#state === "open" && nowUs - this.#openedUs >= this.#options.pauseUs) this.#change("probing");
    return this.#state !== "open";
  }

  /** Counts outcomes of what was sent. Those of a probe decide at once: one success closes, failures alone open. */
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

  /** The server has just said something, though it settled nothing: what kept it silent is over. */
  noteAlive(): void {
    if (this.#state !== "closed") this.#close();
  }

  /** Ends the pause: the reason for failing may be gone, for instance because there is a new connection. */
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
