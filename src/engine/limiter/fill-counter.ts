// Fills takes of counters (COMPATIBILITY_MODE): the key contains the current window, and the cost is the hits as sent.

import type { Clock } from "../base/clock.ts";
import { divideDown, MICROS_PER_SECOND } from "../base/units.ts";
import type { Limit } from "../domain/limit.ts";
import { Mode, type Take, type TakeGroup } from "../domain/take.ts";
import { hashBucketKey } from "../rules/bucket-key.ts";
import { applyQuestion } from "./add-takes.ts";
import type { Question } from "./question.ts";

interface CounterOptions {
  /** Defines the windows of counters: the clock that other services on the same counters use. */
  readonly windowClock: Clock;
  /** STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT: a call that is over charges only the counters that are over. Default: false. */
  readonly stopsAtOver?: boolean;
}

/** Fills the counters of one call at a time. All of them are in the windows of one second. */
export class CounterFiller {
  readonly #options: CounterOptions;
  #nowS = 0;

  constructor(options: CounterOptions) {
    this.#options = options;
  }

  begin(group: TakeGroup): void {
    const { windowClock, stopsAtOver } = this.#options;
    this.#nowS = divideDown(windowClock.nowUs(), MICROS_PER_SECOND);
    group.stopsAtOver = stopsAtOver === true;
  }

  /**
   * Adds a take. `key` is the counter's key without the window (compatibility.ts). A charge of 0 hits is over only if the count is above
   * the limit already, as in the reference service.
   */
  add(group: TakeGroup, question: Question, limit: Limit, key: string): Take {
    const take = group.add(limit);
    applyQuestion(group, take, question);
    const secondsIn = this.#nowS % limit.windowSeconds;
    take.bucketKey = key + (this.#nowS - secondsIn);
    take.keyHash = hashBucketKey(take.bucketKey);
    take.windowSecondsLeft = limit.windowSeconds - secondsIn;
    take.mode = question.descriptor.isRefund ? Mode.refund : Mode.charge;
    take.cost = question.hits;
    group.hasCounters = true;
    return take;
  }
}
