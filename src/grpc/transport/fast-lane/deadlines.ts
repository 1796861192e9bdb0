// One timer for the deadlines of all calls that wait for their handler. Calls that are answered at once never come here.

import type { Clock } from "../../../engine/base/clock.ts";
import { MICROS_PER_MILLI } from "../../../engine/base/units.ts";

/** Answers the calls that are due at `nowUs`; returns when the next one is due, or Infinity. */
type Expire = (nowUs: number) => number;

const TIMER_MS_MAX = 2_147_483_647;
/** Each look at all calls is followed by a pause this many times as long: calls that fall due one by one must not fill a core. */
const REST_PER_LOOK = 9;

export class Deadlines {
  readonly #clock: Clock;
  readonly #expire: Expire;
  #timer: NodeJS.Timeout | undefined;
  #nextUs = Number.POSITIVE_INFINITY;
  #restUntilUs = Number.NEGATIVE_INFINITY;

  constructor(clock: Clock, expire: Expire) {
    this.#clock = clock;
    this.#expire = expire;
  }

  /** Notes a deadline. */
  note(dueUs: number): void {
    if (dueUs < this.#nextUs) this.#arm(dueUs);
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#nextUs = Number.NEGATIVE_INFINITY;
  }

  #arm(dueUs: number): void {
    clearTimeout(this.#timer);
    this.#nextUs = dueUs;
    if (dueUs === Number.POSITIVE_INFINITY) return;
    const atUs = Math.max(dueUs, this.#restUntilUs);
    const waitMs = Math.ceil((atUs - this.#clock.nowUs()) / MICROS_PER_MILLI);
    this.#timer = setTimeout(() => this.#ring(), Math.min(Math.max(waitMs, 1), TIMER_MS_MAX)).unref();
  }

  // Most calls are answered before their deadline, so the timer mostly rings for a call that is gone.
  #ring(): void {
    this.#nextUs = Number.POSITIVE_INFINITY;
    const startUs = this.#clock.nowUs();
    const nextUs = this.#expire(startUs);
    const endUs = this.#clock.nowUs();
    this.#restUntilUs = endUs + REST_PER_LOOK * (endUs - startUs);
    if (nextUs < this.#nextUs) this.#arm(nextUs);
  }
}
