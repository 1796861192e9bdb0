// Payments that wait for their settlement, bucket by bucket. What a hold does to its bucket stands in holds.ts.

import { HOLDS_IN_MEMORY_MAX, HOLDS_PER_BUCKET_MAX } from "../core/holds-full.ts";
import type { Limit } from "../core/limit.ts";
import type { LimitStats } from "../core/limit-stats.ts";
import { MICROS_PER_TOKEN } from "../core/units.ts";
import { DebtLows } from "./debt-lows.ts";

/** Holds that end in one step, in all its buckets together; the rest ends in later steps (lua/holds.lua says the same). */
const ENDINGS_PER_STEP = 128;

/** Settled holds of one generation; there are two, and the older goes when the younger is full: before its time if it must. */
const SETTLED_MAX = 50_000;

/** A payment that can still be settled. */
export interface Hold {
  /** Empty if nobody can name it. */
  readonly id: string;
  readonly cost: number;
  readonly paidAtUs: number;
  /** When it is given back, if nobody settles it. */
  readonly endsAtUs: number;
  /** Number of its payment among those of the bucket (DebtLows). */
  readonly payment: number;
}

/** The live holds of one bucket. */
export class BucketHolds {
  readonly bucketKey: string;
  /** The limit that opened the last one. */
  limit: Limit;
  /** Where they are counted. */
  stats: LimitStats;
  /** Of a token bucket. */
  readonly lows = new DebtLows();
  readonly #byId = new Map<string, Hold>();
  /** Those that end soonest come first; settled ones stay in it until their turn comes. */
  #inOrder: Hold[] = [];
  #first = 0;
  #live = 0;

  constructor(bucketKey: string, limit: Limit) {
    this.bucketKey = bucketKey;
    this.limit = limit;
    this.stats = limit.stats;
  }

  get size(): number {
    return this.#live;
  }

  find(id: string): Hold | undefined {
    return id === "" ? undefined : this.#byId.get(id);
  }

  /** The one that was paid at that time, under that id or under none; undefined if there is none any more. */
  paidAt(id: string, paidAtUs: number): Hold | undefined {
    const named = this.find(id);
    if (named?.paidAtUs === paidAtUs) return named;
    for (let at = this.#inOrder.length - 1; at >= this.#first; at--) {
      const hold = this.#inOrder[at] as Hold;
      if (hold.id === "" && hold.paidAtUs === paidAtUs) return hold;
    }
    return undefined;
  }

  /** Has them counted there: by the rule, and where it counts by value by that. */
  countIn(stats: LimitStats): void {
    if (stats === this.stats) return;
    this.stats.holdsLive -= this.#live;
    stats.holdsLive += this.#live;
    this.stats = stats;
  }

  /** All live ones, those that end soonest first. */
  live(): Hold[] {
    return this.#inOrder.slice(this.#first).filter((hold) => this.#isLive(hold));
  }

  /** The one that ends soonest; undefined if there are none. */
  first(): Hold | undefined {
    while (this.#first < this.#inOrder.length) {
      const hold = this.#inOrder[this.#first] as Hold;
      if (this.#isLive(hold)) return hold;
      this.#dropFirst();
    }
    return undefined;
  }

  /** Adds a hold; one of a known id is kept as one that nobody can name. */
  add({ id, cost, paidAtUs, endsAtUs }: Omit<Hold, "payment">): void {
    this.lows.hold(cost * MICROS_PER_TOKEN);
    this.keep({ id: this.#byId.has(id) ? "" : id, cost, paidAtUs, endsAtUs, payment: this.lows.last });
  }

  /** Adds a hold that was live in another process before. */
  keep(kept: Hold): void {
    if (kept.id !== "") this.#byId.set(kept.id, kept);
    this.#live++;
    this.stats.holdsLive++;
    let at = this.#inOrder.length;
    // Time may have stepped back, or the rule's ttl have been edited.
    while (at > this.#first && (this.#inOrder[at - 1] as Hold).endsAtUs > kept.endsAtUs) at--;
    if (at === this.#inOrder.length) this.#inOrder.push(kept);
    else this.#inOrder.splice(at, 0, kept);
  }

  /** Removes a hold that `find` or `first` has returned. */
  remove(hold: Hold): void {
    this.#live--;
    this.stats.holdsLive--;
    this.lows.release(hold.cost * MICROS_PER_TOKEN);
    if (hold.id !== "") this.#byId.delete(hold.id);
    if (this.#inOrder[this.#first] === hold) this.#dropFirst();
    else if (hold.id === "") this.#inOrder.splice(this.#inOrder.lastIndexOf(hold), 1);
  }

  // Those without a name are taken out at once, the others when their turn comes.
  #isLive(hold: Hold): boolean {
    return hold.id === "" || this.#byId.get(hold.id) === hold;
  }

  #dropFirst(): void {
    this.#first++;
    if (this.#first < 64 || this.#first * 2 < this.#inOrder.length) return;
    this.#inOrder = this.#inOrder.slice(this.#first);
    this.#first = 0;
  }
}

/** The holds of all buckets of a store. */
export class HoldBook {
  readonly #buckets = new Map<string, BucketHolds>();
  /** When settled holds may be forgotten, by bucket and id: the younger generation, and the older one. */
  #settled = new Map<string, number>();
  #settledBefore = new Map<string, number>();
  /** When the first and the last of the younger generation may be forgotten, and when the last of the older one. */
  #firstForgottenUs = Number.POSITIVE_INFINITY;
  #lastForgottenUs = 0;
  #allBeforeForgottenUs = 0;
  #idle: IterableIterator<BucketHolds> | undefined;
  #live = 0;
  #endingsLeft = ENDINGS_PER_STEP;

  of(bucketKey: string): BucketHolds | undefined {
    return this.#buckets.get(bucketKey);
  }

  /** A call, or one of its parts, begins: it ends so many holds at most. */
  beginStep(): void {
    this.#endingsLeft = ENDINGS_PER_STEP;
  }

  /** Counts one that is about to end; false if the step has ended enough. */
  mayEndOne(): boolean {
    return this.#endingsLeft-- > 0;
  }

  /** True if one more can be opened in the bucket. */
  hasRoom(bucketKey: string): boolean {
    return this.#live < HOLDS_IN_MEMORY_MAX && (this.of(bucketKey)?.size ?? 0) < HOLDS_PER_BUCKET_MAX;
  }

  /** Adds a hold of a bucket, which is counted in `stats` from now on. */
  add(bucketKey: string, limit: Limit, stats: LimitStats, hold: Omit<Hold, "payment">): void {
    const bucket = this.#bucketOf(bucketKey, limit);
    bucket.countIn(stats);
    bucket.add(hold);
    this.#live++;
  }

  /** Keeps holds of a bucket as another process had them; `lows` come with the first of them. */
  keep(bucketKey: string, limit: Limit, lows: readonly number[] | undefined, holds: readonly Hold[]): void {
    const bucket = this.#bucketOf(bucketKey, limit);
    if (lows !== undefined) bucket.lows.restore(lows);
    for (const hold of holds) bucket.keep(hold);
    this.#live += holds.length;
  }

  #bucketOf(bucketKey: string, limit: Limit): BucketHolds {
    let bucket = this.#buckets.get(bucketKey);
    if (bucket === undefined) {
      bucket = new BucketHolds(bucketKey, limit);
      this.#buckets.set(bucketKey, bucket);
    }
    bucket.limit = limit;
    return bucket;
  }

  remove(bucket: BucketHolds, hold: Hold): void {
    bucket.remove(hold);
    this.#live--;
    if (bucket.size === 0) this.#buckets.delete(bucket.bucketKey);
  }

  /** Remembers until `forgetAtUs` that the hold was settled. */
  noteSettled(bucketKey: string, id: string, nowUs: number, forgetAtUs: number): void {
    if (id === "") return;
    if (nowUs >= Math.max(this.#firstForgottenUs, this.#allBeforeForgottenUs)) this.#turnSettled();
    this.keepSettled(nameOf(bucketKey, id), forgetAtUs);
  }

  isSettled(bucketKey: string, id: string, nowUs: number): boolean {
    if (id === "") return false;
    const name = nameOf(bucketKey, id);
    return (this.#settled.get(name) ?? this.#settledBefore.get(name) ?? 0) > nowUs;
  }

  /** The buckets that have live holds now, as far as they still have some when their turn comes. */
  *buckets(): Generator<BucketHolds, void, void> {
    let left = this.#buckets.size;
    for (const bucket of this.#buckets.values())
      if (left-- > 0) yield bucket;
      else return;
  }

  /** Settled holds that are remembered, and until when; a name is what `keepSettled` of another book takes. */
  *settled(): Generator<[name: string, forgetAtUs: number], void, void> {
    for (const settled of [this.#settledBefore, this.#settled]) {
      let left = settled.size;
      for (const one of settled)
        if (left-- > 0) yield one;
        else break;
    }
  }

  /** Forgets the holds of the bucket. */
  drop(bucketKey: string): void {
    const bucket = this.of(bucketKey);
    if (bucket === undefined) return;
    this.#live -= bucket.size;
    bucket.stats.holdsLive -= bucket.size;
    this.#buckets.delete(bucketKey);
  }

  keepSettled(name: string, forgetAtUs: number): void {
    if (this.#settled.size >= SETTLED_MAX) this.#turnSettled();
    this.#firstForgottenUs = Math.min(this.#firstForgottenUs, forgetAtUs);
    this.#lastForgottenUs = Math.max(this.#lastForgottenUs, forgetAtUs);
    this.#settled.set(name, forgetAtUs);
  }

  // One by one they would leave holes that later looks have to pass.
  #turnSettled(): void {
    this.#settledBefore = this.#settled;
    this.#allBeforeForgottenUs = this.#lastForgottenUs;
    this.#settled = new Map();
    this.#lastForgottenUs = 0;
    this.#firstForgottenUs = Number.POSITIVE_INFINITY;
  }

  /** One bucket after another, so that the holds of those that nobody asks about end, too. Undefined if there are none. */
  nextBucket(): BucketHolds | undefined {
    this.#idle ??= this.#buckets.values();
    const { value } = this.#idle.next();
    if (value === undefined) this.#idle = undefined;
    return value;
  }
}

function nameOf(bucketKey: string, id: string): string {
  return `${bucketKey} ${id}`;
}
