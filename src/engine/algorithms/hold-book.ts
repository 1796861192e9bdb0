// The live holds (payments that wait for their settlement) of each bucket, and the ids of settled ones. holds.ts
// applies holds to their buckets; the tables are in hold-tables.ts. A bucket's holds are a list, those that end soonest
// first.

import { Reserved } from "../../base/reserved.ts";
import { MICROS_PER_TOKEN } from "../../base/units.ts";
import type { KeyHash } from "../domain/key-bytes.ts";
import { HOLDS_PER_BUCKET_MAX, type Limit } from "../domain/limit.ts";
import type { LimitStats } from "../domain/stats.ts";
import { DebtLows } from "./debt-lows.ts";
import { HeldBuckets, LiveHolds, SettledIds } from "./hold-tables.ts";

/**
 * Most holds that end in one step, in all its buckets together; the rest ends in later steps. lua/holds.lua has the
 * same bound.
 */
const ENDINGS_PER_STEP = 32;
/** Most settled ids for so many live holds. Beyond it, the one settled longest ago is dropped, even before its time. */
const HOLDS_PER_SETTLED_ID = 10;
/** Settled ids whose time is over that are dropped, at most, when another is added. */
const SETTLED_DROPS = 2;
/** Buckets that `nextEnded` looks at. */
const LOOKS_PER_STEP = 64;

/** A payment that can still be settled, as it is in its row. */
export interface Hold {
  readonly row: number;
  readonly cost: number;
  readonly paidAtUs: number;
  /** When the payment is given back if nobody settles it. */
  readonly endsAtUs: number;
  /** Number of the payment (DebtLows). */
  readonly payment: number;
}

/** A hold outside a HoldBook. Its id is one-byte, of at most 64 bytes; empty if nobody can settle it. */
export interface KeptHold extends Omit<Hold, "row"> {
  readonly id: string;
}

/** A bucket with live holds, during a step. */
export class BucketHolds {
  /** Its row; 0 once it has lost its last hold. */
  row = 0;
  /** Used if the bucket is a token bucket. */
  readonly lows = new DebtLows();
}

/** The holds of all buckets of a store. Buckets are named by the hashes of their keys. */
export class HoldBook {
  readonly #holdsMax: number;
  readonly #buckets: HeldBuckets;
  readonly #holds: LiveHolds;
  readonly #settled: SettledIds;
  /** The bucket that `nextEnded` read last. */
  #lookedAt = 0;
  /** The buckets of this step; the first `#openCount` are in use. */
  readonly #open: BucketHolds[] = [];
  #openCount = 0;
  #endingsLeft = ENDINGS_PER_STEP;

  constructor(holdsMax = 2 * HOLDS_PER_BUCKET_MAX, memory = new Reserved()) {
    this.#holdsMax = holdsMax;
    this.#buckets = new HeldBuckets(memory, holdsMax);
    this.#holds = new LiveHolds(memory, holdsMax);
    this.#settled = new SettledIds(memory, Math.ceil(holdsMax / HOLDS_PER_SETTLED_ID));
  }

  /** Forgets everything. */
  clear(): void {
    for (let bucket = 1; bucket <= this.#buckets.made; bucket++) {
      for (let hold = this.#buckets.first[bucket] as number; hold !== 0 && this.#buckets.size[bucket] !== 0; ) {
        const next = this.#holds.after[hold] as number;
        this.#holds.remove(hold);
        hold = next;
      }
    }
    this.#holds.clear();
    this.#buckets.clear();
    this.#settled.clear();
    this.#openCount = 0;
  }

  /** Number of all live holds. */
  get liveCount(): number {
    return this.#holds.count;
  }

  /** Begins a step, which may end at most ENDINGS_PER_STEP holds. */
  beginStep(): void {
    this.#openCount = 0;
    this.#endingsLeft = ENDINGS_PER_STEP;
  }

  /** Keeps what the step has left in `lows`. */
  endStep(): void {
    for (let i = 0; i < this.#openCount; i++) {
      const { row, lows } = this.#open[i] as BucketHolds;
      if (row !== 0) this.#buckets.setLows(row, lows.numbers());
    }
  }

  /** Counts a hold that is about to end; false if the step has reached its bound. */
  mayEndOne(): boolean {
    return this.#endingsLeft-- > 0;
  }

  /** The live holds of a bucket; undefined if there are none. The same object throughout a step. */
  of(bucket: KeyHash): BucketHolds | undefined {
    for (let i = 0; i < this.#openCount; i++) {
      const open = this.#open[i] as BucketHolds;
      if (open.row !== 0 && this.#buckets.isOf(open.row, bucket)) return open;
    }
    const row = this.#buckets.find(bucket);
    return row === 0 ? undefined : this.#openBucket(row);
  }

  sizeOf({ row }: BucketHolds): number {
    return row === 0 ? 0 : (this.#buckets.size[row] as number);
  }

  /** True if one more hold can be opened in the bucket. */
  hasRoom(bucket: KeyHash): boolean {
    if (this.liveCount >= this.#holdsMax) return false;
    const holds = this.of(bucket);
    return holds === undefined || this.sizeOf(holds) < HOLDS_PER_BUCKET_MAX;
  }

  /** The hold of that id, unless it has ended: an ended one may still wait here to be given back (ENDINGS_PER_STEP). */
  find(bucket: KeyHash, id: string, nowUs: number): Hold | undefined {
    const hold = this.#find(this.#buckets.find(bucket), id);
    return hold !== 0 && (this.#holds.endsAtUs[hold] as number) > nowUs ? this.#holdAt(hold) : undefined;
  }

  /** The hold without an id that was paid at one time and ends at the other; undefined if there isn't one. */
  findNameless({ row }: BucketHolds, paidAtUs: number, endsAtUs: number): Hold | undefined {
    const holds = this.#holds;
    for (let hold = this.#buckets.last[row] as number; hold !== 0; hold = holds.before[hold] as number) {
      const isOfThen = holds.paidAtUs[hold] === paidAtUs && holds.endsAtUs[hold] === endsAtUs;
      if (isOfThen && holds.idOf(hold) === "") return this.#holdAt(hold);
    }
    return undefined;
  }

  /** The hold that ends soonest; undefined if the bucket has lost its last one. */
  first({ row }: BucketHolds): Hold | undefined {
    return row === 0 ? undefined : this.#holdAt(this.#buckets.first[row] as number);
  }

  /** The bucket's hold that ends next after this one; undefined after its last one. */
  next({ row }: Hold): Hold | undefined {
    const after = this.#holds.after[row] as number;
    return after === 0 ? undefined : this.#holdAt(after);
  }

  /** Counts holds of the bucket that have ended by themselves. */
  countExpired({ row }: BucketHolds, count: number): void {
    const stats = this.#buckets.stats[row];
    if (stats !== undefined) stats.holdsExpired += count;
  }

  /** Has `stats` count the holds of the bucket: those of the rule, or of a value if the rule counts by value. */
  countIn({ row }: BucketHolds, stats: LimitStats): void {
    const known = this.#buckets.stats[row];
    if (known === undefined || known === stats) return;
    const size = this.#buckets.size[row] as number;
    known.holdsLive -= size;
    stats.holdsLive += size;
    this.#buckets.stats[row] = stats;
  }

  /**
   * Adds a hold, whose id belongs to no hold that has not ended. All holds of the bucket are counted in `stats` from
   * now on.
   */
  add(bucket: KeyHash, limit: Limit, stats: LimitStats, hold: Omit<KeptHold, "payment">): void {
    const holds = this.#bucketOf(bucket, limit);
    this.countIn(holds, stats);
    holds.lows.hold(hold.cost * MICROS_PER_TOKEN);
    const ended = this.#find(holds.row, hold.id);
    if (ended !== 0) this.#holds.dropId(ended);
    this.#addHold(holds.row, { ...hold, payment: holds.lows.last });
  }

  /** Adds holds of a bucket that were kept elsewhere, with the numbers of its lows. */
  keep(bucket: KeyHash, limit: Limit, lows: readonly number[], kept: readonly KeptHold[]): void {
    const holds = this.#bucketOf(bucket, limit);
    holds.lows.restore(lows);
    for (const hold of kept) this.#addHold(holds.row, hold);
    this.#buckets.setLows(holds.row, holds.lows.numbers());
  }

  /** All live holds of the bucket, those that end soonest first. */
  live(holds: BucketHolds): KeptHold[] {
    const all: KeptHold[] = [];
    this.eachLive(holds, ({ row, cost, paidAtUs, endsAtUs, payment }) => {
      all.push({ id: this.#holds.idOf(row), cost, paidAtUs, endsAtUs, payment });
    });
    return all;
  }

  /**
   * Calls `each` for them. `id`: the bytes of the hold's id, which are only valid now; for thousands of holds, strings
   * would take long.
   */
  eachLive({ row }: BucketHolds, each: (hold: Hold, id: Uint8Array) => void): void {
    for (let hold = this.#buckets.first[row] as number; hold !== 0; hold = this.#holds.after[hold] as number) {
      each(this.#holdAt(hold), this.#holds.idBytesOf(hold));
    }
  }

  remove(holds: BucketHolds, { row, cost }: Hold): void {
    holds.lows.release(cost * MICROS_PER_TOKEN);
    this.#removeHold(holds.row, row);
    if (this.sizeOf(holds) === 0) this.#removeBucket(holds);
  }

  /** Forgets the holds of the bucket without giving anything back. */
  drop(bucket: KeyHash): void {
    const holds = this.of(bucket);
    if (holds === undefined) return;
    for (let hold = this.#buckets.first[holds.row] as number; hold !== 0; ) {
      const next = this.#holds.after[hold] as number;
      this.#removeHold(holds.row, hold);
      hold = next;
    }
    this.#removeBucket(holds);
  }

  /** Remembers until `forgetAtUs` that the hold was settled. Does nothing for a hold without an id. */
  noteSettled(bucket: KeyHash, id: string, nowUs: number, forgetAtUs: number): void {
    if (id !== "") this.#settled.add(bucket, id, nowUs, forgetAtUs, SETTLED_DROPS);
  }

  /** Whether a hold of that id is live, or was settled and is not forgotten yet. */
  knows(bucket: KeyHash, id: string, nowUs: number): boolean {
    return this.find(bucket, id, nowUs) !== undefined || this.forgetAtUs(bucket, id) > nowUs;
  }

  /** When it may be forgotten that the hold of that id was settled; 0 if it was not. */
  forgetAtUs(bucket: KeyHash, id: string): number {
    return id === "" ? 0 : this.#settled.forgetAtUs(bucket, id);
  }

  /**
   * Searches the next buckets for one whose first hold has ended, so that holds end even if no call asks. Returns the
   * limit that opened its last hold, and writes its hash; undefined if none of them has one.
   */
  nextEnded(nowUs: number, into: KeyHash): Limit | undefined {
    const { made } = this.#buckets;
    for (let looks = Math.min(LOOKS_PER_STEP, made); looks > 0; looks--) {
      this.#lookedAt = this.#lookedAt < made ? this.#lookedAt + 1 : 1;
      if (!this.isBucketAt(this.#lookedAt, into)) continue;
      if ((this.#holds.endsAtUs[this.#buckets.first[this.#lookedAt] as number] as number) > nowUs) continue;
      return this.#buckets.limitOf(this.#lookedAt);
    }
    return undefined;
  }

  /** Rows that buckets have or had; `isBucketAt` takes numbers from 1 to this. */
  get bucketsMade(): number {
    return this.#buckets.made;
  }

  /** Whether a bucket has the row. Writes the bucket's hash to `into` then. */
  isBucketAt(row: number, into: KeyHash): boolean {
    if (this.#buckets.size[row] === 0) return false;
    this.#buckets.readHash(row, into);
    return true;
  }

  /** Rows that settled ids have or had; `settledAt` takes numbers from 1 to this. */
  get settledMade(): number {
    return this.#settled.made;
  }

  /** The settled id of the row, if it has one. Writes its bucket's hash to `into` then. */
  settledAt(row: number, into: KeyHash): { readonly id: string; readonly forgetAtUs: number } | undefined {
    return this.#settled.at(row, into);
  }

  /** The limit that opened the bucket's last hold, as far as a store needs it. */
  limitOf({ row }: BucketHolds): Limit {
    return this.#buckets.limitOf(row);
  }

  #find(bucket: number, id: string): number {
    return bucket === 0 || id === "" ? 0 : this.#holds.find(bucket, id);
  }

  #openBucket(row: number): BucketHolds {
    const holds = this.#open[this.#openCount] ?? new BucketHolds();
    this.#open[this.#openCount++] = holds;
    holds.row = row;
    holds.lows.restore(this.#buckets.lowsOf(row));
    return holds;
  }

  /** The bucket with holds, which becomes one if it is not. */
  #bucketOf(bucket: KeyHash, limit: Limit): BucketHolds {
    let holds = this.of(bucket);
    if (holds === undefined) {
      holds = this.#openBucket(this.#buckets.add(bucket, limit.stats));
      holds.lows.restore([]);
    }
    this.#buckets.setLimit(holds.row, limit);
    return holds;
  }

  #removeBucket(holds: BucketHolds): void {
    this.#buckets.remove(holds.row);
    holds.row = 0;
  }

  #addHold(bucket: number, { id, cost, paidAtUs, endsAtUs, payment }: KeptHold): void {
    const holds = this.#holds;
    const hold = holds.add(bucket, id);
    holds.cost[hold] = cost;
    holds.paidAtUs[hold] = paidAtUs;
    holds.endsAtUs[hold] = endsAtUs;
    holds.payment[hold] = payment;
    let before = this.#buckets.last[bucket] as number;
    // Not always the last: time may have stepped back, or the rule's ttl was edited.
    while (before !== 0 && (holds.endsAtUs[before] as number) > endsAtUs) before = holds.before[before] as number;
    const after = before === 0 ? (this.#buckets.first[bucket] as number) : (holds.after[before] as number);
    this.#link(bucket, before, hold);
    this.#link(bucket, hold, after);
    this.#countHold(bucket, 1);
  }

  #removeHold(bucket: number, hold: number): void {
    this.#link(bucket, this.#holds.before[hold] as number, this.#holds.after[hold] as number);
    this.#holds.remove(hold);
    this.#countHold(bucket, -1);
  }

  /** Links two holds of the bucket; 0 stands for the begin and the end of its list. */
  #link(bucket: number, before: number, after: number): void {
    if (before === 0) this.#buckets.first[bucket] = after;
    else this.#holds.after[before] = after;
    if (after === 0) this.#buckets.last[bucket] = before;
    else this.#holds.before[after] = before;
  }

  #countHold(bucket: number, count: number): void {
    this.#buckets.size[bucket] = (this.#buckets.size[bucket] as number) + count;
    const stats = this.#buckets.stats[bucket];
    if (stats !== undefined) stats.holdsLive += count;
  }

  #holdAt(row: number): Hold {
    const { cost, paidAtUs, endsAtUs, payment } = this.#holds;
    return {
      row,
      cost: cost[row] as number,
      paidAtUs: paidAtUs[row] as number,
      endsAtUs: endsAtUs[row] as number,
      payment: payment[row] as number,
    };
  }
}
