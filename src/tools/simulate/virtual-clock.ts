// The time of a recording or a case: it stands still until it is moved.

import type { Clock } from "../../engine/base/clock.ts";

/** A clock that is set by hand. */
export class VirtualClock implements Clock {
  #nowUs = 0;

  nowUs(): number {
    return this.#nowUs;
  }

  setUs(nowUs: number): void {
    this.#nowUs = nowUs;
  }
}
