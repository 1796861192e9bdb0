// Stops calls to a server that keeps failing, and finds out when it answers again.

import { MICROS_PER_MILLI } from "../../engine/base/units.ts";
import { OWN_LIMIT } from "../../engine/domain/limit.ts";
import { TakeGroup } from "../../engine/domain/take.ts";
import type { SettleListener } from "../store.ts";

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
 * A circuit breaker. Pure: the caller gives times and outcomes, and is told of state changes.
 *
 * Closed, it admits everything and counts outcomes. Open, it admits nothing until the pause is over. Probing, it admits one batch, whose
 * outcome closes or opens it; outcomes of earlier batches don't count then.
 */
export class Breaker {
  readonly #options: BreakerOptions;
  readonly #onChange: (state: BreakerState) => void;
  #state: BreakerState = "closed";
  #openedUs = 0;
  // The window has ten slices; a slice is reused after a whole window.
  readonly #slices = Array.from({ length: SLICES }, () => ({ number: -1, succeeded: 0, failed: 0 }));

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
      const number = Math.floor((nowUs * SLICES) / this.#options.windowUs);
      const slice = this.#slices[number % SLICES];
      if (slice === undefined) return;
      if (slice.number !== number) Object.assign(slice, { number, succeeded: 0, failed: 0 });
      slice.succeeded += succeeded;
      slice.failed += failed;
      if (failed > 0 && this.#hasFailedTooOften(number)) this.#open(nowUs);
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

/** A bucket for takes that only ask whether the server is well, and the queue of its key. */
export interface ProbeBucket {
  readonly bucketKey: string;
  readonly queue: number;
}

interface ProbesOptions {
  /** Time before each probe; the breaker's pause. */
  readonly pauseUs: number;
  /** Whether the server is in trouble, and a take could show that this is over. */
  readonly areNeeded: () => boolean;
  /** Undefined if the server has no bucket now. */
  readonly bucket: () => ProbeBucket | undefined;
  readonly take: (group: TakeGroup, then: SettleListener, queue: number) => boolean;
}

/**
 * Finds out by takes of Headgate's own that a server is well again, one after each pause for as long as they are needed: a process that is not
 * ready because of its store may get nobody's takes, which would show it. They pay, because a server that refuses writes may still answer peeks.
 */
export class Probes {
  readonly #options: ProbesOptions;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: ProbesOptions) {
    this.#options = options;
  }

  /** To be called when the server gets into trouble, or up with trouble left. */
  begin(): void {
    // A millisecond more: a timer may be early by a part of one, and the breaker would refuse the probe.
    const ms = Math.ceil(this.#options.pauseUs / MICROS_PER_MILLI) + 1;
    this.#timer ??= setTimeout(() => this.#probe(), ms).unref();
  }

  end(): void {
    clearTimeout(this.#timer);
  }

  #probe(): void {
    this.#timer = undefined;
    const { areNeeded, bucket, take } = this.#options;
    if (!areNeeded()) return;
    const own = bucket();
    const settled = () => this.begin();
    if (own === undefined) {
      settled();
      return;
    }
    const group = new TakeGroup();
    group.add(OWN_LIMIT).bucketKey = `${own.bucketKey}:probe`;
    if (take(group, { settled }, own.queue)) settled();
  }
}
