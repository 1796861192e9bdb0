// The pause before a worker that exited is replaced: none the first time, then longer each time, so that a worker which
// can't live does not keep the machine busy.

import { MICROS_PER_SECOND } from "../../engine/base/units.ts";

const PAUSE_FIRST_MS = 200;
const PAUSE_MS_MAX = 30_000;
/** A worker that lived this long was healthy, so its end restarts the count. */
const HEALTHY_US = 60 * MICROS_PER_SECOND;

/** The pauses for one worker's number. */
export class RestartPace {
  #failures = 0;

  /** A worker has ended after `livedUs`; returns the milliseconds until the next one may start. */
  pauseAfter(livedUs: number): number {
    if (livedUs >= HEALTHY_US) this.#failures = 0;
    const pauseMs = this.#failures === 0 ? 0 : Math.min(PAUSE_MS_MAX, PAUSE_FIRST_MS * 2 ** (this.#failures - 1));
    this.#failures++;
    return pauseMs;
  }
}
