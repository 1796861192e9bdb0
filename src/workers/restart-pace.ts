// How long to wait before a worker that ended by itself is replaced: not at all the first time, longer each time after that,
// so that a worker which can't live does not keep a machine busy.

import { MICROS_PER_SECOND } from "../core/units.ts";

const PAUSE_FIRST_MS = 200;
const PAUSE_MS_MAX = 30_000;
/** Who lived this long is taken as healthy: its end begins the count anew. */
const HEALTHY_US = 60 * MICROS_PER_SECOND;

/** The pauses of one place among the workers. */
export class RestartPace {
  #failures = 0;

  /** A worker that had lived for `livedUs` has ended; milliseconds until the next one may start. */
  pauseAfter(livedUs: number): number {
    if (livedUs >= HEALTHY_US) this.#failures = 0;
    const pauseMs = this.#failures === 0 ? 0 : Math.min(PAUSE_MS_MAX, PAUSE_FIRST_MS * 2 ** (this.#failures - 1));
    this.#failures++;
    return pauseMs;
  }
}
