// A call with limits that are counted partly in memory, partly at the shared store. Its takes are in two groups of its own, because the
// call's group may be reused before the store answers. Pooled.

import { copyAnswer, copyQuestion, Kind, Mode, type Take, TakeGroup } from "../../engine/domain/take.ts";
import { NOBODY, type SettleListener } from "../store.ts";

/** The two parts of a call. */
export class SplitCall implements SettleListener {
  readonly #onSettled: (call: SplitCall) => void;
  readonly remote = new TakeGroup();
  readonly local = new TakeGroup();
  group: TakeGroup | undefined;
  generation = 0;
  next: SettleListener = NOBODY;
  sentUs = 0;
  /** True if the local part alone refuses the call. */
  isRefused = false;
  /** For each take of the call, its index in `remote`, or -1 minus its index in `local`. */
  readonly answerIndexes: number[] = [];

  /** `onSettled` is called when the store settles the shared part in a later turn. */
  constructor(onSettled: (call: SplitCall) => void) {
    this.#onSettled = onSettled;
  }

  begin(group: TakeGroup, next: SettleListener, sentUs: number): void {
    this.group = group;
    this.generation = group.generation;
    this.next = next;
    this.sentUs = sentUs;
    this.isRefused = false;
    this.answerIndexes.length = 0;
    this.remote.deadlineUs = group.deadlineUs;
    this.remote.hasSpareQuota = group.hasSpareQuota;
    this.remote.hasCounters = group.hasCounters;
    this.remote.stopsAtOver = group.stopsAtOver;
  }

  /** Empties the call for its pool. A late answer to its groups finds other generations and is ignored. */
  end(): void {
    this.group = undefined;
    this.next = NOBODY;
    this.remote.reset();
    this.local.reset();
  }

  /** Adds a take that was answered in memory, with its answer. */
  addLocal(take: Take): void {
    this.answerIndexes.push(-1 - this.local.size);
    copyAnswer(take, copyQuestion(take, this.local));
  }

  /** Adds a take for the shared store. If `isUndone`, its descriptor is over already, so the take only peeks. */
  addRemote(take: Take, isUndone: boolean): Take {
    this.answerIndexes.push(this.remote.size);
    const copy = copyQuestion(take, this.remote);
    if (isUndone) {
      copy.kind = Kind.shadow;
      if (copy.mode === Mode.pay) copy.mode = Mode.peek;
    }
    return copy;
  }

  settled(): void {
    this.#onSettled(this);
  }
}
