// A store whose answers a test decides: settles from a map, fails, or answers later when told.

import type { Clock } from "../../src/base/clock.ts";
import type { StoreError } from "../../src/base/errors.ts";
import { HeldSettlement } from "../../src/engine/algorithms/held-settlement.ts";
import { HoldBook } from "../../src/engine/algorithms/hold-book.ts";
import type { BucketAccess, WorkingBucket } from "../../src/engine/algorithms/working-bucket.ts";
import { CounterSettlement } from "../../src/engine/counters/counter-settlement.ts";
import type { LocalStore, TakeListener } from "../../src/engine/domain/store.ts";
import { type Take, type TakeGroup, Verdict } from "../../src/engine/domain/take.ts";

interface Kept {
  readonly atUs: number;
  readonly used: number;
  readonly previous: number;
  readonly log: Float64Array | undefined;
}

class MapAccess implements BucketAccess {
  readonly hasRoomForPayment = () => true;
  readonly buckets = new Map<string, Kept>();

  load(bucket: WorkingBucket): boolean {
    const kept = this.buckets.get(bucket.bucketKey);
    if (kept === undefined) return false;
    bucket.state.atUs = kept.atUs;
    bucket.state.used = kept.used;
    bucket.state.previous = kept.previous;
    if (kept.log !== undefined) bucket.useLog().restore(kept.log);
    return true;
  }

  save(bucket: WorkingBucket): void {
    const { atUs, used, previous } = bucket.state;
    this.buckets.set(bucket.bucketKey, { atUs, used, previous, log: bucket.log?.kept() });
  }

  extend(): void {
    // Nothing here expires.
  }

  remove(bucket: WorkingBucket): void {
    this.buckets.delete(bucket.bucketKey);
  }
}

/** Answers at once from a map, unless told to fail or to hold answers back. */
export class ScriptedStore implements LocalStore {
  /** When set, every take fails with it. */
  failure: StoreError | undefined;
  /** When true, answers wait for `release`. */
  holdsBack = false;
  /** How many processes it says there are. */
  processes = 1;
  /** Groups seen, as the keys of their takes. */
  readonly seen: string[][] = [];

  readonly #access = new MapAccess();
  readonly #holds = new HoldBook();
  readonly #settlement = new HeldSettlement(this.#access, this.#holds);
  readonly #counters = new CounterSettlement(this.#access);
  readonly #clock: Clock;
  readonly #held: { group: TakeGroup; generation: number; then: TakeListener }[] = [];

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  take(group: TakeGroup, then: TakeListener): boolean {
    this.seen.push(group.takes.slice(0, group.size).map((take) => take.bucketKey));
    if (this.holdsBack) {
      this.#held.push({ group, generation: group.generation, then });
      return false;
    }
    this.#settle(group);
    return true;
  }

  /** Lets all answers go that were held back. */
  release(): void {
    for (const { group, generation, then } of this.#held.splice(0)) {
      this.#settle(group);
      then.answered(group, generation);
    }
  }

  /** How many buckets hold anything. */
  bucketCount(): number {
    return this.#access.buckets.size;
  }

  giveBack(group: TakeGroup): void {
    this.#settlement.giveBack(group, this.#clock.nowUs());
  }

  forget(take: Take): void {
    this.#settlement.forget(take, this.#clock.nowUs());
  }

  knowsHold(take: Take): boolean {
    take.needKeyBytes();
    return this.#holds.knows(take, take.holdId, this.#clock.nowUs());
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  #settle(group: TakeGroup): void {
    if (this.failure === undefined) {
      (group.takes[0]?.limit.isCounter ? this.#counters : this.#settlement).settle(group, this.#clock.nowUs());
      return;
    }
    group.verdict = Verdict.failed;
    group.failure = this.failure;
  }
}
