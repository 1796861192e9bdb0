// One bucket on the reference store, for properties that go on where a history ends.

import type { Limit } from "../../src/engine/domain/limit.ts";
import { Mode, type Take, TakeGroup } from "../../src/engine/domain/take.ts";
import { fillGroup, takeOf } from "../contract/store-harness.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { type History, limitOf } from "./histories.ts";
import { ReferenceStore } from "./reference-store.ts";
import { type GroupAnswer, replayAtOnce } from "./replay.ts";

/** The bucket that a history of one limit and one identity has used. */
export class SingleBucket {
  readonly clock = new ManualClock();
  readonly limit: Limit;
  /** What the history was answered. */
  readonly answers: readonly GroupAnswer[];
  readonly #store = new ReferenceStore(this.clock);

  constructor(history: History) {
    const [numbers] = history.limits;
    if (numbers === undefined) throw new RangeError("expected a history with a limit");
    this.limit = limitOf(numbers);
    this.answers = replayAtOnce(this.#store, this.clock, history);
  }

  pay(cost: number, identity = "0"): Take {
    return takeOf(this.#settle(Mode.pay, cost, identity), 0);
  }

  peek(cost = 1, identity = "0"): Take {
    return takeOf(this.#settle(Mode.peek, cost, identity), 0);
  }

  #settle(mode: Mode, cost: number, identity: string): TakeGroup {
    const group = new TakeGroup();
    fillGroup(group, [{ limit: this.limit, mode, cost, identity }], "", false);
    this.#store.take(group);
    return group;
  }
}
