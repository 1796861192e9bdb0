// One call whose buckets lie in several places: its parts, and how the whole is settled once every part has answered.
// Pooled. Which bucket lies where, and how a part is settled there, is for others to say.

import { Algorithm } from "../../core/limit.ts";
import { usToRefill } from "../../core/refill.ts";
import { Kind, Mode, Outcome, Source, type Take, TakeGroup, Verdict } from "../../core/take.ts";
import type { Settled } from "../store.ts";
import type { Places } from "./places.ts";
import { copyAnswer, copyQuestion } from "./split-call.ts";

const NOBODY: Settled = { settled: () => undefined };

/** The takes of the call that lie in one place. */
interface Part {
  place: number;
  readonly group: TakeGroup;
}

/** A call under way. */
export class PartCall implements Settled {
  readonly #places: Places;
  readonly #onDone: (call: PartCall) => void;
  /** Those of this call first, then ones from earlier calls, empty. */
  readonly #parts: Part[] = [];
  #size = 0;
  /** The part of each take of the call. Takes of a part stand in it in the order of the call. */
  readonly #partOf: Part[] = [];
  /** The call's takes as their parts hold them. */
  readonly #takes: Take[] = [];
  #group: TakeGroup | undefined;
  #generation = 0;
  #then: Settled = NOBODY;
  #hasSpareQuota = false;
  #stopsAtOver = false;
  #hasDenied = false;
  #waiting = 0;

  constructor(places: Places, onDone: (call: PartCall) => void) {
    this.#places = places;
    this.#onDone = onDone;
  }

  /** Takes at all places at once; as Store.take. */
  begin(group: TakeGroup, then: Settled): boolean {
    this.#group = group;
    this.#generation = group.generation;
    this.#then = then;
    this.#hasSpareQuota = group.hasSpareQuota;
    this.#stopsAtOver = group.stopsAtOver;
    this.#split(group);
    // One more than there are parts: whoever answers at once does not end the call before all were asked.
    this.#waiting = this.#size + 1;
    for (let i = 0; i < this.#size; i++) {
      const { place, group: asked } = this.#parts[i] as Part;
      if (this.#places.takeAt(place, asked, this)) this.#waiting--;
    }
    this.#waiting--;
    if (this.#waiting > 0) return false;
    this.#finish();
    this.#end();
    return true;
  }

  /** A part was settled later. */
  settled(): void {
    this.#waiting--;
    if (this.#waiting > 0) return;
    const group = this.#group;
    const generation = this.#generation;
    const then = this.#then;
    this.#finish();
    this.#end();
    if (group !== undefined) then.settled(group, generation);
  }

  #split(group: TakeGroup): void {
    this.#hasDenied = false;
    for (let i = 0; i < group.size; i++) if ((group.takes[i] as Take).mode === Mode.denied) this.#hasDenied = true;
    for (let i = 0; i < group.size; i++) {
      const take = group.takes[i] as Take;
      const part = this.#partAt(this.#places.placeOf(take), group);
      const copy = copyQuestion(take, part.group);
      if (take.mode === Mode.denied) copyAnswer(take, copy);
      // A counter that the local cache denies keeps the others from being charged, wherever they are.
      if (this.#stopsAtOver && this.#hasDenied && copy.mode === Mode.charge) copy.cost = 0;
      this.#partOf.push(part);
      this.#takes.push(copy);
    }
  }

  #partAt(place: number, group: TakeGroup): Part {
    for (let i = 0; i < this.#size; i++) {
      const part = this.#parts[i] as Part;
      if (part.place === place) return part;
    }
    let part = this.#parts[this.#size];
    if (part === undefined) {
      part = { place, group: new TakeGroup() };
      this.#parts.push(part);
    }
    this.#size++;
    part.place = place;
    part.group.deadlineUs = group.deadlineUs;
    part.group.hasCounters = group.hasCounters;
    part.group.stopsAtOver = group.stopsAtOver;
    // Quota descriptors refuse a call together, and no place sees them all.
    part.group.hasSpareQuota = true;
    return part;
  }

  #finish(): void {
    const isRefused = this.#isRefused();
    const failed = this.#failedPart();
    const group = this.#group;
    const isCurrent = group !== undefined && group.generation === this.#generation;
    if (isCurrent) {
      group.verdict = isRefused ? Verdict.refused : failed === undefined ? Verdict.allowed : Verdict.failed;
      group.failure = isRefused ? undefined : failed?.failure;
      // Some of its takes have no answer: nothing should be learnt from it.
      group.source = isRefused && failed !== undefined ? Source.local : Source.store;
    }
    const standsUnheard = !isCurrent || (failed !== undefined && !isRefused);
    this.#undo(isRefused, standsUnheard);
    this.#undoCharges();
    for (let i = 0; isCurrent && i < this.#takes.length; i++) {
      const take = group.takes[i] as Take;
      copyAnswer(this.#takes[i] as Take, take);
      if (this.#stopsAtOver && this.#hasDenied && take.mode === Mode.charge) take.paid = false;
    }
  }

  #end(): void {
    for (let i = 0; i < this.#size; i++) this.#parts[i]?.group.reset();
    this.#size = 0;
    this.#partOf.length = 0;
    this.#takes.length = 0;
    this.#group = undefined;
    this.#then = NOBODY;
    this.#onDone(this);
  }

  #failedPart(): TakeGroup | undefined {
    for (let i = 0; i < this.#size; i++) {
      const { group } = this.#parts[i] as Part;
      if (group.verdict === Verdict.failed) return group;
    }
    return undefined;
  }

  /** Whether what is known refuses the call, by the rule that one store would go by. */
  #isRefused(): boolean {
    let quotas = 0;
    let quotasOver = 0;
    let end = 0;
    for (let start = 0; start < this.#takes.length; start = end) {
      const { descriptor, kind } = this.#takes[start] as Take;
      let isOver = false;
      for (end = start; end < this.#takes.length && this.#takes[end]?.descriptor === descriptor; end++) {
        if (this.#isOver(end)) isOver = true;
      }
      if (kind === Kind.ordinary && isOver) return true;
      if (kind === Kind.quota) {
        quotas++;
        if (isOver) quotasOver++;
      }
    }
    return quotas > 0 && quotasOver === quotas && !this.#hasSpareQuota;
  }

  /** False also for a take that nobody answered. */
  #isOver(index: number): boolean {
    if (this.#partOf[index]?.group.verdict === Verdict.failed) return false;
    const outcome = this.#takes[index]?.outcome;
    return outcome === Outcome.over || outcome === Outcome.never;
  }

  /**
   * Gives back what must not stand: of a refused call all that was paid to pass; of one that nobody hears of, or that is
   * answered without the store, what was reported after the fact too; of any other what a descriptor paid that is over
   * at another place. Refunds stand.
   */
  #undo(isRefused: boolean, standsUnheard: boolean): void {
    for (let i = 0; i < this.#size; i++) {
      const { place, group } = this.#parts[i] as Part;
      if (group.verdict === Verdict.failed) continue;
      let undone: TakeGroup | undefined;
      for (let t = 0; t < this.#takes.length; t++) {
        const take = this.#takes[t] as Take;
        if (this.#partOf[t]?.group !== group || !take.paid) continue;
        const mayGo = take.mode === Mode.pay || (standsUnheard && take.mode === Mode.postPaid);
        if (!mayGo || !(isRefused || standsUnheard || this.#isDescriptorOver(t))) continue;
        undone ??= new TakeGroup();
        this.#places.onUndone?.(take);
        copyAnswer(take, copyQuestion(take, undone));
        take.paid = false;
        take.paidAtUs = 0;
      }
      if (undone === undefined) continue;
      this.#places.giveBackAt(place, undone);
      showUndone(group, undone);
    }
  }

  #isDescriptorOver(index: number): boolean {
    const descriptor = this.#takes[index]?.descriptor;
    for (let i = 0; i < this.#takes.length; i++) {
      if (this.#takes[i]?.descriptor === descriptor && this.#isOver(i)) return true;
    }
    return false;
  }

  /** STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT: a place where no counter is over has charged its counters all the same. */
  #undoCharges(): void {
    if (!this.#stopsAtOver || !this.#takes.some((take, index) => take.mode === Mode.charge && this.#isOver(index)))
      return;
    for (let i = 0; i < this.#size; i++) {
      const { place, group } = this.#parts[i] as Part;
      if (group.verdict === Verdict.failed) continue;
      const refunds = new TakeGroup();
      for (let t = 0; t < group.size; t++) {
        const take = group.takes[t] as Take;
        if (take.mode !== Mode.charge || !take.paid || take.outcome !== Outcome.room) continue;
        // The window is in a counter's key: what is refunded goes where it came from.
        const refund = copyQuestion(take, refunds);
        refund.mode = Mode.refund;
        refund.kind = Kind.shadow;
        take.paid = false;
        take.counted -= take.cost;
        take.remaining = Math.max(0, take.limit.amount - take.counted);
      }
      if (refunds.size === 0) continue;
      refunds.hasCounters = true;
      this.#places.takeAt(place, refunds, NOBODY);
    }
  }
}

/** Has the answers of a part say how the buckets stand once `undone` has been given back. */
function showUndone(part: TakeGroup, undone: TakeGroup): void {
  for (let u = 0; u < undone.size; u++) {
    const { bucketKey, cost, cappedHits } = undone.takes[u] as Take;
    for (let i = 0; i < part.size; i++) {
      const take = part.takes[i] as Take;
      if (take.bucketKey === bucketKey) showGivenBack(take, cost - cappedHits);
    }
  }
}

// Exact for what remains. The time until a token bucket is as new is at most a microsecond too long; of the others it is known
// only once nothing is left in them.
function showGivenBack(take: Take, cost: number): void {
  const { limit } = take;
  take.remaining = Math.min(limit.burst, take.remaining + cost);
  if (take.remaining === limit.burst) take.resetUs = 0;
  else if (limit.algorithm === Algorithm.tokenBucket && limit.amount > 0)
    take.resetUs = Math.max(0, take.resetUs - usToRefill(cost * 1_000_000, limit) + 1);
}
