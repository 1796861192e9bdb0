// Stops takes to a server that keeps failing.

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
 * A circuit breaker. Pure: the caller gives times and outcomes, and hears of state changes.
 *
 * Closed, it counts outcomes; otherwise no takes may be sent but probes (intake.ts). Probing, one of these is under
 * way, and its outcome closes or opens it; outcomes of earlier takes don't count then.
 */
export class Breaker {
  readonly #options: BreakerOptions;
  readonly #onChange: (state: BreakerState) => void;
  #state: BreakerState = "closed";
  // The window has ten slices; a slice is reused after a whole window.
  readonly #slices = Array.from({ length: SLICES }, () => ({ number: -1, succeeded: 0, failed: 0 }));

  constructor(options: BreakerOptions, onChange: (state: BreakerState) => void) {
    this.#options = options;
    this.#onChange = onChange;
  }

  get state(): BreakerState {
    return this.#state;
  }

  /** Counts outcomes of takes. */
  record(succeeded: number, failed: number, nowUs: number): void {
    if (this.#state !== "closed") return;
    const number = Math.floor((nowUs * SLICES) / this.#options.windowUs);
    const slice = this.#slices[number % SLICES];
    if (slice === undefined) return;
    if (slice.number !== number) Object.assign(slice, { number, succeeded: 0, failed: 0 });
    slice.succeeded += succeeded;
    slice.failed += failed;
    if (failed > 0 && this.#hasFailedTooOften(number)) this.#change("open");
  }

  /** Notes that a probe is sent. */
  beginProbe(): void {
    if (this.#state === "open") this.#change("probing");
  }

  /** Notes a probe's outcome: whether the server has answered it. */
  endProbe(isWell: boolean): void {
    if (isWell) this.noteAlive();
    else if (this.#state === "probing") this.#change("open");
  }

  /** Closes the breaker: the server has just answered. */
  noteAlive(): void {
    if (this.#state === "closed") return;
    for (const slice of this.#slices) slice.number = -1;
    this.#change("closed");
  }

  #change(state: BreakerState): void {
    this.#state = state;
    this.#onChange(state);
  }

  /** `newest`: number of the present slice. */
  #hasFailedTooOften(newest: number): boolean {
    const { outcomesMin, failureShare } = this.#options;
    let failed = 0;
    let outcomes = 0;
    for (const slice of this.#slices) {
      if (slice.number < 0 || slice.number <= newest - SLICES) continue;
      failed += slice.failed;
      outcomes += slice.succeeded + slice.failed;
    }
    return outcomes >= outcomesMin && failed >= outcomes * failureShare;
  }
}
