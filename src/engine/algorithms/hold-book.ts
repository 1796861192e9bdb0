// The live holds (payments that wait for their settlement) of each bucket, and the ids of settled ones. holds.ts applies holds to
// their buckets.

import type { LongWork } from "../base/long-work.ts";
import { MICROS_PER_TOKEN } from "../base/units.ts";
import { HOLDS_IN_MEMORY_MAX, HOLDS_PER_BUCKET_MAX, type Limit } from "../domain/limit.ts";
import { LimitStats } from "../domain/stats.ts";
import { DebtLows } from "./debt-lows.ts";

/** Most holds that end in one step, in all its buckets together; the rest ends in later steps. lua/holds.lua has the same bound. */
const ENDINGS_PER_STEP = 32;

/** Most settled ids of one generation. There are two; when the younger is full, the older is dropped, even before its time. */
const SETTLED_MAX = 50_000;

/** Counts holds of limits that have none any more. */
const NO_RULE = new LimitStats();

/** A payment that can still be settled. */
export interface Hold {
  /** Empty if nobody can settle it. */
  readonly id: string;
  readonly cost: number;
  readonly paidAtUs: number;
  /** When the payment is given back if nobody settles it. */
  readonly endsAtUs: number;
  /** Number of the payment (DebtLows). */
  readonly payment: number;
}

/** The live holds of one bucket. */
export class BucketHolds {
  readonly bucketKey: string;
  /** The limit under which the last hold was opened. */
  limit: Limit;
  /** The stats that count these holds. */
  stats: LimitStats;
  /** Used if the bucket is a token bucket. */
  readonly lows = new DebtLows();
  readonly #byId = new Map<string, Hold>();
  /** By time of ending. Removed holds with an id stay in the list until they come first. */
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

  /** The hold of that id, unless it has ended: an ended one may still wait here to be given back (ENDINGS_PER_STEP). */
  find(id: string, nowUs: number): Hold | undefined {
    const hold = id === "" ? undefined : this.#byId.get(id);
    return hold !== undefined && hold.endsAtUs > nowUs ? hold : undefined;
  }

  /** The hold without an id that was paid at that time; undefined if there is none. */
  namelessPaidAt(paidAtUs: number): Hold | undefined {
    for (let at = this.#inOrder.length - 1; at >= this.#first; at--) {
      const hold = this.#inOrder[at] as Hold;
      if (hold.id === "" && hold.paidAtUs === paidAtUs) return hold;
    }
    return undefined;
  }

  /** Moves the count of live holds to `stats`: those of the rule, or of a value if the rule counts by value. */
  countIn(stats: LimitStats): void {
    if (stats === this.stats) return;
    this.stats.holdsLive -= this.#live;
    stats.holdsLive += this.#live;
    this.stats = stats;
  }

  /** All live holds, those that end soonest first. */
  live(): Hold[] {
    return this.#inOrder.slice(this.#first).filter((hold) => this.#isLive(hold));
  }

  /** The live hold that ends soonest; undefined if there is none. */
  first(): Hold | undefined {
    while (this.#first < this.#inOrder.length) {
      const hold = this.#inOrder[this.#first] as Hold;
      if (this.#isLive(hold)) return hold;
      this.#dropFirst();
    }
    return undefined;
  }

  /** Adds a hold, whose id belongs to no hold that has not ended. */
  add({ id, cost, paidAtUs, endsAtUs }: Omit<Hold, "payment">): void {
    this.lows.hold(cost * MICROS_PER_TOKEN);
    const ended = this.#byId.get(id);
    if (ended !== undefined) this.#inOrder[this.#inOrder.indexOf(ended)] = { ...ended, id: "" };
    this.keep({ id, cost, paidAtUs, endsAtUs, payment: this.lows.last });
  }

  /** Adds a hold restored from another process; its number of payment is known. */
  keep(kept: Hold): void {
    if (kept.id !== "") this.#byId.set(kept.id, kept);
    this.#live++;
    this.stats.holdsLive++;
    let at = this.#inOrder.length;
    // Not always the last: time may have stepped back, or the rule's ttl was edited.
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

  // `remove` takes holds without an id out of the list at once; for the others the map tells.
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
  /** When each settled hold may be forgotten, by bucket and id: the younger generation and the older one. */
  #settled = new Map<string, number>();
  #settledBefore = new Map<string, number>();
  /** When the first and the last id of the younger generation may be forgotten, and the last of the older one. */
  #firstForgottenUs = Number.POSITIVE_INFINITY;
  #lastForgottenUs = 0;
  #allBeforeForgottenUs = 0;
  #idle: IterableIterator<BucketHolds> | undefined;
  #live = 0;
  #endingsLeft = ENDINGS_PER_STEP;

  /** The live holds of a bucket; undefined if there are none. */
  of(bucketKey: string): BucketHolds | undefined {
    return this.#buckets.get(bucketKey);
  }

  /** Begins a step, which may end at most ENDINGS_PER_STEP holds. */
  beginStep(): void {
    this.#endingsLeft = ENDINGS_PER_STEP;
  }

  /** Counts a hold that is about to end; false if the step has reached its bound. */
  mayEndOne(): boolean {
    return this.#endingsLeft-- > 0;
  }

  /** True if one more hold can be opened in the bucket. */
  hasRoom(bucketKey: string): boolean {
    return this.#live < HOLDS_IN_MEMORY_MAX && (this.of(bucketKey)?.size ?? 0) < HOLDS_PER_BUCKET_MAX;
  }

  /** Adds a hold. All holds of the bucket are counted in `stats` from now on. */
  add(bucketKey: string, limit: Limit, stats: LimitStats, hold: Omit<Hold, "payment">): void {
    const bucket = this.#bucketOf(bucketKey, limit);
    bucket.countIn(stats);
    bucket.add(hold);
    this.#live++;
  }

  /** Restores holds of a bucket from another process. `lows` comes with the first of several calls for one bucket. */
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

  /** Remembers until `forgetAtUs` that the hold was settled. Does nothing for a hold without an id. */
  noteSettled(bucketKey: string, id: string, nowUs: number, forgetAtUs: number): void {
    if (id === "") return;
    if (nowUs >= Math.max(this.#firstForgottenUs, this.#allBeforeForgottenUs)) this.#turnSettled();
    this.keepSettled(settledName(bucketKey, id), forgetAtUs);
  }

  /** Whether a hold of that id is live, or was settled and is not forgotten yet. */
  knows(bucketKey: string, id: string, nowUs: number): boolean {
    return this.of(bucketKey)?.find(id, nowUs) !== undefined || this.isSettled(bucketKey, id, nowUs);
  }

  isSettled(bucketKey: string, id: string, nowUs: number): boolean {
    if (id === "") return false;
    const name = settledName(bucketKey, id);
    return (this.#settled.get(name) ?? this.#settledBefore.get(name) ?? 0) > nowUs;
  }

  /** The buckets that have live holds now. Buckets may lose their holds during the iteration; those are then left out. */
  *buckets(): Generator<BucketHolds, void, void> {
    let left = this.#buckets.size;
    for (const bucket of this.#buckets.values())
      if (left-- > 0) yield bucket;
      else return;
  }

  /**
   * Takes the holds of limits that are not among `held` out of their rules' counts: no call would count them down. The next payment on the
   * bucket counts them again.
   */
  *leaveCounts(held: ReadonlySet<LimitStats>): LongWork<void> {
    for (const bucket of this.buckets()) {
      if (!held.has(bucket.limit.stats)) bucket.countIn(NO_RULE);
      yield;
    }
  }

  /** Remembered settled holds and when each may be forgotten, in the form that `keepSettled` of another book takes. */
  *settled(): Generator<[name: string, forgetAtUs: number], void, void> {
    for (const settled of [this.#settledBefore, this.#settled]) {
      let left = settled.size;
      for (const one of settled)
        if (left-- > 0) yield one;
        else break;
    }
  }

  /** Forgets the holds of the bucket without giving anything back. */
  drop(bucketKey: string): void {
    const bucket = this.of(bucketKey);
    if (bucket === undefined) return;
    this.#live -= bucket.size;
    bucket.stats.holdsLive -= bucket.size;
    this.#buckets.delete(bucketKey);
  }

  /** Remembers a settled hold under a name that `settled` gave. */
  keepSettled(name: string, forgetAtUs: number): void {
    if (this.#settled.size >= SETTLED_MAX) this.#turnSettled();
    this.#firstForgottenUs = Math.min(this.#firstForgottenUs, forgetAtUs);
    this.#lastForgottenUs = Math.max(this.#lastForgottenUs, forgetAtUs);
    this.#settled.set(name, forgetAtUs);
  }

  // Whole generations are dropped: deleting from a Map entry by entry leaves holes that later iterations must pass.
  #turnSettled(): void {
    this.#settledBefore = this.#settled;
    this.#allBeforeForgottenUs = this.#lastForgottenUs;
    this.#settled = new Map();
    this.#lastForgottenUs = 0;
    this.#firstForgottenUs = Number.POSITIVE_INFINITY;
  }

  /** The next bucket in turn, so that holds also end in buckets that no call asks about. Undefined at the end of a round. */
  nextBucket(): BucketHolds | undefined {
    this.#idle ??= this.#buckets.values();
    const { value } = this.#idle.next();
    if (value === undefined) this.#idle = undefined;
    return value;
  }
}

/** The name under which a settled hold is remembered. */
export function settledName(bucketKey: string, id: string): string {
  return `${bucketKey} ${id}`;
}

// The live holds of one bucket as text: JSON in ASCII of the numbers of its lows, then of each hold.

type PackedHold = readonly [id: string, cost: number, paidAtUs: number, endsAtUs: number, payment: number];

export function packHolds(holds: BucketHolds): string {
  const live = holds.live().map(({ id, cost, paidAtUs, endsAtUs, payment }) => [id, cost, paidAtUs, endsAtUs, payment]);
  return JSON.stringify([holds.lows.numbers(), live]).replace(/[\x7f-\xff]/g, escapeOf);
}

function escapeOf(char: string): string {
  return `\\u00${char.charCodeAt(0).toString(16)}`;
}

/** Adds the holds of a text to the book, as those of this bucket. False, with the book unchanged, if `packHolds` can't have written the text. */
export function unpackHolds(book: HoldBook, bucketKey: string, limit: Limit, text: string): boolean {
  let read: unknown;
  try {
    read = JSON.parse(text);
  } catch {
    return false;
  }
  if (!Array.isArray(read) || read.length !== 2) return false;
  const [lows, holds] = read as unknown[];
  if (!Array.isArray(lows) || !lows.every(Number.isSafeInteger) || !Array.isArray(holds) || !holds.every(isHold))
    return false;
  book.keep(bucketKey, limit, lows as number[], (holds as PackedHold[]).map(holdOf));
  return true;
}

function holdOf([id, cost, paidAtUs, endsAtUs, payment]: PackedHold): Hold {
  return { id, cost, paidAtUs, endsAtUs, payment };
}

function isHold(value: unknown): value is PackedHold {
  if (!Array.isArray(value) || value.length !== 5) return false;
  const [id, ...numbers] = value as unknown[];
  return typeof id === "string" && numbers.every(Number.isSafeInteger);
}
