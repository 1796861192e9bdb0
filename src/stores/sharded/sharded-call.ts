// A call whose buckets lie at several shards: its parts, and how the call is settled when every part has answered or failed. Pooled.

import type { StoreError } from "../../engine/base/errors.ts";
import {
  copyAnswer,
  copyQuestion,
  isOver,
  Kind,
  Mode,
  Outcome,
  Source,
  type Take,
  TakeGroup,
  Verdict,
} from "../../engine/domain/take.ts";
import { collectReturns, costToReturn, isGroupRefused } from "../../engine/domain/verdict.ts";
import { NOBODY, type SettleListener } from "../store.ts";

/** Servers or stores, each of which keeps a part of all buckets. A shard settles all takes of a group as one. */
export interface Shards {
  /** Number of the shard with the take's bucket. */
  shardOf(take: Take): number;
  /** Like Store.take, for a group with all its buckets at this shard. */
  takeAt(shard: number, group: TakeGroup, then: SettleListener): boolean;
  /** Like Store.giveBack, for a group with all its buckets at this shard. Must not keep the group. */
  giveBackAt(shard: number, group: TakeGroup): void;
  /** Told of each take that was paid and is given back, because another part of its call refused or its caller has gone. */
  onUndone?(take: Take): void;
}

/** The takes of the call at one shard, in the order of the call. */
interface Part {
  shard: number;
  readonly group: TakeGroup;
  /** Number of its answers that have been read. */
  read: number;
}

/** A call under way. */
export class ShardedCall implements SettleListener {
  readonly #shards: Shards;
  readonly #onDone: (call: ShardedCall) => void;
  /** The parts of this call, then empty ones left from earlier calls. */
  readonly #parts: Part[] = [];
  #size = 0;
  /** The part of each take of the call, by index. */
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

  /** Takes at all shards at once, each with this deadline. Returns and answers like Store.take. */
  begin(group: TakeGroup, then: SettleListener, deadlineUs: number): boolean {
    this.#group = group;
    this.#deadlineUs = deadlineUs;
    this.#generation = group.generation;
    this.#then = then;
    this.#stopsAtOver = group.stopsAtOver;
    this.#split(group);
    // One more than there are parts, so that parts that answer at once don't end the call before all were asked.
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

  /** Notes that a part was settled in a later turn. */
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
      // A counter that the local cache denies prevents the charges of all other counters, at every shard.
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
    // Quota descriptors refuse a call only together, and no shard sees all of them.
    part.group.hasSpareQuota = true;
    return part;
  }

  #finish(): void {
    const group = this.#group;
    this.#undoCharges();
    if (group === undefined || group.generation !== this.#generation) {
      // No caller waits for the answer any more, so everything that was paid is given back.
      for (let i = 0; i < this.#size; i++) this.#giveBack((this.#parts[i] as Part).group);
      return;
    }
    this.#writeAnswers(group);
    const isRefused = isGroupRefused(group);
    const failure = isRefused ? undefined : this.#failure();
    group.verdict = isRefused ? Verdict.refused : failure === undefined ? Verdict.allowed : Verdict.failed;
    group.failure = failure;
    group.source = Source.store;
    collectReturns(group, isRefused ? Verdict.refused : Verdict.allowed, this.#returned);
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

  /** Why some takes have no answer, at best of a shard that may have counted them; undefined if all have one. */
  #failure(): StoreError | undefined {
    let failure: StoreError | undefined;
    for (let i = 0; i < this.#size; i++) {
      const { group } = this.#parts[i] as Part;
      if (group.verdict !== Verdict.failed) continue;
      if (failure === undefined || group.failure?.isOutcomeUnknown) failure = group.failure;
    }
    return failure;
  }

  /** With STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT: refunds the charges at shards where no counter was over. */
  #undoCharges(): void {
    if (!this.#stopsAtOver || !this.#isCounterOver()) return;
    for (let i = 0; i < this.#size; i++) {
      const { shard, group } = this.#parts[i] as Part;
      const refunds = new TakeGroup();
      for (let t = 0; t < group.size; t++) {
        const take = group.takes[t] as Take;
        if (take.mode !== Mode.charge || !take.paid || take.outcome !== Outcome.room) continue;
        // A counter's key names its window, so the refund reaches the window that was charged.
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

/** Like Store.giveBack, for a group with buckets at any shards. */
export function giveBackAtShards(shards: Shards, group: TakeGroup): void {
  const parts = new Map<number, TakeGroup>();
  for (let i = 0; i < group.size; i++) {
    const take = group.takes[i] as Take;
    if (!take.paid) continue;
    const shard = shards.shardOf(take);
    let part = parts.get(shard);
    if (part === undefined) {
      part = new TakeGroup();
      parts.set(shard, part);
    }
    copyAnswer(take, copyQuestion(take, part));
  }
  for (const [shard, part] of parts) shards.giveBackAt(shard, part);
}
