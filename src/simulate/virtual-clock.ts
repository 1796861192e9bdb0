// Time as a recording or a case has it: it stands still until it is moved.

import type { Clock } from "../core/clock.ts";

/** A clock that whoever replays calls sets. */
export class VirtualClock implements Clock {
  #nowUs = 0;

  nowUs(): number {
    return this.#nowUs;
  }

  setUs(nowUs: number): void {
    this.#nowUs = nowUs;
  }
}
