// One call whose buckets lie at several shards: its parts, and how the call is settled once every part has answered or
// failed. Pooled.

import type { StoreError } from "../../core/errors.ts";
import {
  copyAnswer,
  copyQuestion,
  Kind,
  Mode,
  Outcome,
  Source,
  type Take,
  TakeGroup,
  Verdict,
} from "../../core/take.ts";
import { collectReturns, costToReturn, isGroupRefused, isOver, Returns } from "../../core/verdict.ts";
import type { SettleListener } from "../store.ts";
import { giveBackAtShards, type Shards } from "./shards.ts";

const NOBODY: SettleListener = { settled: () => undefined };

/** The takes of the call that lie at one shard, in the order of the call. */
interface Part {
  shard: number;
  readonly group: TakeGroup;
  /** How many of its answers were read. */
  read: number;
}

/** A call under way. */
export class ShardedCall implements SettleListener {
  readonly #shards: Shards;
  readonly #onDone: (call: ShardedCall) => void;
  /** Those of this call first, then ones from earlier calls, empty. */
  readonly #parts: Part[] = [];
  #size = 0;
  /** The part of each take of the call. */
  readonly #partOf: Part[] = [];
  readonly #returned = new TakeGroup();
  #group: TakeGroup | undefined;
  #generation = 0;
  #deadlineUs = 0;
  #then: SettleListener = NOBODY;
  #stopsAtOver = false;
  #hasDenied = false;
  #waiting = 0;

  constructor(shards: Shards, onDone: (call: ShardedCall) => void) {
    this.#shards = shards;
    this.#onDone = onDone;
  }

  /** Takes at all shards at once; as Store.take. Each is told that deadline. */
  begin(group: TakeGroup, then: SettleListener, deadlineUs: number): boolean {
    this.#group = group;
    this.#deadlineUs = deadlineUs;
    this.#generation = group.generation;
    this.#then = then;
    this.#stopsAtOver = group.stopsAtOver;
    this.#split(group);
    // One more than there are parts: whoever answers at once does not end the call before all were asked.
    this.#waiting = this.#size + 1;
    for (let i = 0; i < this.#size; i++) {
      const { shard, group: asked } = this.#parts[i] as Part;
      if (this.#shards.takeAt(shard, asked, this)) this.#waiting--;
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
      const part = this.#partAt(this.#shards.shardOf(take), group);
      const copy = copyQuestion(take, part.group);
      if (take.mode === Mode.denied) copyAnswer(take, copy);
      // A counter that the local cache denies keeps the others from being charged, wherever they are.
      if (this.#stopsAtOver && this.#hasDenied && copy.mode === Mode.charge) copy.cost = 0;
      this.#partOf.push(part);
    }
  }

  #partAt(shard: number, group: TakeGroup): Part {
    for (let i = 0; i < this.#size; i++) {
      const part = this.#parts[i] as Part;
      if (part.shard === shard) return part;
    }
    let part = this.#parts[this.#size];
    if (part === undefined) {
      part = { shard, group: new TakeGroup(), read: 0 };
      this.#parts.push(part);
    }
    this.#size++;
    part.shard = shard;
    part.group.deadlineUs = this.#deadlineUs;
    part.group.hasCounters = group.hasCounters;
    part.group.stopsAtOver = group.stopsAtOver;
    // Quota descriptors refuse a call together, and no shard sees them all.
    part.group.hasSpareQuota = true;
    return part;
  }

  #finish(): void {
    const group = this.#group;
    this.#undoCharges();
    if (group === undefined || group.generation !== this.#generation) {
      // No caller waits for the answer any more: what was paid is given back.
      for (let i = 0; i < this.#size; i++) this.#giveBack((this.#parts[i] as Part).group);
      return;
    }
    this.#writeAnswers(group);
    const isRefused = isGroupRefused(group);
    const failure = isRefused ? undefined : this.#failure();
    group.verdict = isRefused ? Verdict.refused : failure === undefined ? Verdict.allowed : Verdict.failed;
    group.failure = failure;
    group.source = Source.store;
    collectReturns(group, isRefused ? Returns.refused : Returns.over, this.#returned);
    this.#giveBack(this.#returned);
  }

  #writeAnswers(group: TakeGroup): void {
    for (let i = 0; i < this.#partOf.length; i++) {
      const part = this.#partOf[i] as Part;
      const take = group.takes[i] as Take;
      copyAnswer(part.group.takes[part.read++] as Take, take);
      if (this.#stopsAtOver && this.#hasDenied && take.mode === Mode.charge) take.paid = false;
    }
  }

  #giveBack(group: TakeGroup): void {
    for (let i = 0; i < group.size; i++) {
      const take = group.takes[i] as Take;
      if (take.paid && costToReturn(take) > 0) this.#shards.onUndone?.(take);
    }
    if (group.size > 0) giveBackAtShards(this.#shards, group);
  }

  #end(): void {
    for (let i = 0; i < this.#size; i++) {
      const part = this.#parts[i] as Part;
      part.group.reset();
      part.read = 0;
    }
    this.#size = 0;
    this.#partOf.length = 0;
    this.#returned.reset();
    this.#group = undefined;
    this.#then = NOBODY;
    this.#onDone(this);
  }

  /** Why takes have no answer; undefined if all have. */
  #failure(): StoreError | undefined {
    for (let i = 0; i < this.#size; i++) {
      const { group } = this.#parts[i] as Part;
      if (group.verdict === Verdict.failed) return group.failure;
    }
    return undefined;
  }

  /** STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT: a shard where no counter is over has charged its counters all the same. */
  #undoCharges(): void {
    if (!this.#stopsAtOver || !this.#isCounterOver()) return;
    for (let i = 0; i < this.#size; i++) {
      const { shard, group } = this.#parts[i] as Part;
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
      this.#shards.takeAt(shard, refunds, NOBODY);
    }
  }

  #isCounterOver(): boolean {
    for (let i = 0; i < this.#size; i++) {
      const { group } = this.#parts[i] as Part;
      for (let t = 0; t < group.size; t++) {
        const take = group.takes[t] as Take;
        if (take.mode === Mode.charge && isOver(take)) return true;
      }
    }
    return false;
  }
}
