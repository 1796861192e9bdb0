// Drops expired buckets a few at a time: one interval for the whole store, never a timer per key. It runs only while there are buckets,
// and does not keep the process alive.

import type { Clock } from "../../engine/base/clock.ts";
import { divideDown, MICROS_PER_SECOND } from "../../engine/base/units.ts";
import type { Buckets } from "./buckets.ts";

const INTERVAL_MS = 50;
/** Slots per turn, of which at most three quarters have a bucket. A turn takes a millisecond if all buckets have expired. */
const SLOTS_PER_TURN = 8_192;

/** Sweeps buckets in the background. */
export class ExpirySweep {
  readonly #buckets: Buckets;
  readonly #clock: Clock;
  #timer: NodeJS.Timeout | undefined = undefined;

  constructor(buckets: Buckets, clock: Clock) {
    this.#buckets = buckets;
    this.#clock = clock;
  }

  /** Starts the interval, unless it runs. */
  start(): void {
    if (this.#timer !== undefined) return;
    this.#timer = setInterval(() => this.turn(), INTERVAL_MS);
    this.#timer.unref();
  }

  /** Sweeps the next slots; stops the interval when no bucket is left. */
  turn(): void {
    this.#buckets.sweep(SLOTS_PER_TURN, divideDown(this.#clock.nowUs(), MICROS_PER_SECOND));
    if (this.#buckets.count === 0) this.stop();
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}
