// Decides calls whose buckets lie at several shards: nodes of a cluster, or two stores. No shard can decide such a call
// alone, so each shard decides its part as a group of its own, all at the same time. If the call is refused, the
// payments of its parts are given back by receipt.

import type { StoreError } from "../../base/errors.ts";
import { getOrInsert } from "../../base/get-or-insert.ts";
import { NOBODY, type Store, type TakeListener } from "../../engine/domain/store.ts";
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
import { collectReturns, costToReturn, isAnyOver, isGroupRefused } from "../../engine/domain/verdict.ts";

/** Servers or stores, each of which keeps a part of all buckets. A shard decides all takes of a group as one. */
export interface Shards {
  /** Number of the shard with the take's bucket. */
  shardOf(take: Take): number;
  /** Like Store.take, for a group with all its buckets at this shard. */
  takeAt(shard: number, group: TakeGroup, then: TakeListener): boolean;
  /** Like Store.giveBack, for a group with all its buckets at this shard. Must not keep the group. */
  giveBackAt(shard: number, group: TakeGroup): void;
  /**
   * Called for each take that was paid and is given back, because another part of its call refused or its caller has
   * gone.
   */
  onUndone?(take: Take): void;
}

/**
 * Decides calls over shards. It never grants more than one store with all the buckets would, and refuses for the same
 * reasons. But while a call is under way that will be refused, its parts hold what they have paid, so another call may
 * find less at that moment (test/property/sharded-calls.test.ts). A call with all its buckets at one shard is passed to
 * that shard unchanged.
 *
 * If a shard gives no answer, only its own takes stay unanswered. The answers and payments of other shards remain
 * valid.
 */
export class ShardedCalls {
  readonly #shards: Shards;
  readonly #idle: ShardedCall[] = [];

  constructor(shards: Shards) {
    this.#shards = shards;
  }

  /** Decides a group like Store.take. */
  take(group: TakeGroup, then: TakeListener): boolean {
    const first = group.takes[0];
    if (first === undefined || group.size === 0) return this.#shards.takeAt(0, group, then);
    const shard = this.#shards.shardOf(first);
    if (this.#isAllAt(shard, group)) return this.#shards.takeAt(shard, group, then);
    return this.#idleCall().begin(group, then, group.deadlineUs);
  }

  /**
   * Like `take`, but splits even a call with all its buckets at one shard, and all parts are answered by `deadlineUs`.
   */
  takeBy(deadlineUs: number, group: TakeGroup, then: TakeListener): boolean {
    return this.#idleCall().begin(group, then, Math.min(group.deadlineUs, deadlineUs));
  }

  /** Gives a group's payments back like Store.giveBack. */
  giveBack(group: TakeGroup): void {
    giveBackAtShards(this.#shards, group);
  }

  #idleCall(): ShardedCall {
    return this.#idle.pop() ?? new ShardedCall(this.#shards, (done) => this.#idle.push(done));
  }

  #isAllAt(shard: number, group: TakeGroup): boolean {
    for (let i = 1; i < group.size; i++) {
      if (this.#shards.shardOf(group.takes[i] as Take) !== shard) return false;
    }
    return true;
  }
}

/**
 * Several stores as one: each limit is kept in the store with the index that `shardOf` returns. Used for a second Redis
 * with the limits per second.
 */
export class SeveralStores extends ShardedCalls implements Store {
  readonly #stores: readonly [Store, ...Store[]];

  constructor(
    stores: readonly [Store, ...Store[]],
    shardOf: Shards["shardOf"],
    onUndone: NonNullable<Shards["onUndone"]> = () => undefined,
  ) {
    const storeAt = (shard: number) => stores[shard] ?? stores[0];
    super({
      shardOf,
      takeAt: (shard, group, then) => storeAt(shard).take(group, then),
      giveBackAt: (shard, group) => storeAt(shard).giveBack(group),
      onUndone,
    });
    this.#stores = stores;
  }

  async close(): Promise<void> {
    await Promise.all(this.#stores.map((store) => store.close()));
  }
}

/** The takes of the call at one shard, in the order of the call. */
interface Part {
  shard: number;
  readonly group: TakeGroup;
}

/** A call under way: its parts, and how it is decided when every part has answered or failed. Pooled. */
class ShardedCall implements TakeListener {
  readonly #shards: Shards;
  readonly #onDone: (call: ShardedCall) => void;
  /** The parts of this call, then empty ones left from earlier calls. */
  readonly #parts: Part[] = [];
  #size = 0;
  /** The copy of each take of the call, in its part. */
  readonly #copies: Take[] = [];
  readonly #returned = new TakeGroup();
  #group: TakeGroup | undefined;
  #generation = 0;
  #deadlineUs = 0;
  #then: TakeListener = NOBODY;
  #waiting = 0;

  constructor(shards: Shards, onDone: (call: ShardedCall) => void) {
    this.#shards = shards;
    this.#onDone = onDone;
  }

  /** Takes at all shards at once, each with this deadline. Returns and answers like Store.take. */
  begin(group: TakeGroup, then: TakeListener, deadlineUs: number): boolean {
    this.#group = group;
    this.#deadlineUs = deadlineUs;
    this.#generation = group.generation;
    this.#then = then;
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

  /** Notes that a part was decided in a later turn. */
  answered(): void {
    this.#waiting--;
    if (this.#waiting > 0) return;
    const group = this.#group;
    const generation = this.#generation;
    const then = this.#then;
    this.#finish();
    this.#end();
    if (group !== undefined) then.answered(group, generation);
  }

  #split(group: TakeGroup): void {
    for (let i = 0; i < group.size; i++) {
      const take = group.takes[i] as Take;
      const part = this.#partAt(this.#shards.shardOf(take));
      this.#copies.push(copyQuestion(take, part.group));
    }
  }

  #partAt(shard: number): Part {
    for (let i = 0; i < this.#size; i++) {
      const part = this.#parts[i] as Part;
      if (part.shard === shard) return part;
    }
    let part = this.#parts[this.#size];
    if (part === undefined) {
      part = { shard, group: new TakeGroup() };
      this.#parts.push(part);
    }
    this.#size++;
    part.shard = shard;
    part.group.deadlineUs = this.#deadlineUs;
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
    for (let i = 0; i < this.#copies.length; i++) {
      copyAnswer(this.#copies[i] as Take, group.takes[i] as Take);
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
    for (let i = 0; i < this.#size; i++) (this.#parts[i] as Part).group.reset();
    this.#size = 0;
    this.#copies.length = 0;
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

  /** If counters depend on each other and one is over: refunds the charges at shards where none was. */
  #undoCharges(): void {
    if (!this.#hasDependentOver()) return;
    for (let i = 0; i < this.#size; i++) {
      const { shard, group } = this.#parts[i] as Part;
      if (isAnyOver(group, 0, group.size)) continue;
      const refunds = new TakeGroup();
      for (let t = 0; t < group.size; t++) {
        const take = group.takes[t] as Take;
        if (take.mode !== Mode.pay || take.outcome !== Outcome.room) continue;
        // A counter's key names its window, so the refund reaches the window that was charged.
        const refund = copyQuestion(take, refunds);
        refund.mode = Mode.refund;
        refund.kind = Kind.shadow;
        take.count -= take.cost;
        take.remaining = Math.max(0, take.limit.amount - take.count);
      }
      if (refunds.size === 0) continue;
      this.#shards.takeAt(shard, refunds, NOBODY);
    }
  }

  #hasDependentOver(): boolean {
    for (let i = 0; i < this.#size; i++) {
      const { group } = this.#parts[i] as Part;
      for (let t = 0; t < group.size; t++) {
        const take = group.takes[t] as Take;
        if (take.limit.isCounter && take.mode === Mode.pay && isOver(take)) return true;
      }
    }
    return false;
  }
}

/** Like Store.giveBack, for a group with buckets at any shards. */
function giveBackAtShards(shards: Shards, group: TakeGroup): void {
  const parts = new Map<number, TakeGroup>();
  for (let i = 0; i < group.size; i++) {
    const take = group.takes[i] as Take;
    if (!take.paid) continue;
    const part = getOrInsert(parts, shards.shardOf(take), () => new TakeGroup());
    copyAnswer(take, copyQuestion(take, part));
  }
  for (const [shard, part] of parts) shards.giveBackAt(shard, part);
}
