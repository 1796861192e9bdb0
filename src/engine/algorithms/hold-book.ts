// The live holds (payments that wait for their settlement) of each bucket, and the ids of settled ones, in a memory that threads may share.
// holds.ts applies holds to their buckets. In shared memory every thread has its own HoldBook, and a lock lets one of them work at a time
// (stores/memory/store-memory.ts).
//
// A bucket with holds has a record, which leads to the list of its holds, those that end soonest first, and to its lows (DebtLows). Settled
// ids are a list in the order of their settlement.

import { type JournaledMemory, ownMemory } from "../base/journaled-memory.ts";
import { MICROS_PER_TOKEN } from "../base/units.ts";
import type { KeyHash } from "../domain/key-bytes.ts";
import { HOLDS_PER_BUCKET_MAX, type Limit } from "../domain/limit.ts";
import type { LimitStats } from "../domain/stats.ts";
import { DebtLows } from "./debt-lows.ts";
import { HoldCounts } from "./hold-counts.ts";
import { HoldRecords, holdBytes, Kind, NUMBER, settledMaxOf, WORD } from "./hold-records.ts";

/** Most holds that end in one step, in all its buckets together; the rest ends in later steps. lua/holds.lua has the same bound. */
const ENDINGS_PER_STEP = 32;
/** Settled ids whose time is over that are dropped, at most, when another is added. */
const SETTLED_DROPS = 2;
/** Records that `nextEnded` looks at. */
const LOOKS_PER_STEP = 64;

/** A payment that can still be settled, as it is in its record. */
export interface Hold {
  readonly record: number;
  readonly cost: number;
  readonly paidAtUs: number;
  /** When the payment is given back if nobody settles it. */
  readonly endsAtUs: number;
  /** Number of the payment (DebtLows). */
  readonly payment: number;
}

/** A hold outside a HoldBook. Its id is one-byte, of at most 64 bytes; empty if nobody can settle it. */
export interface KeptHold extends Omit<Hold, "record"> {
  readonly id: string;
}

/** A bucket with live holds, during a step. */
export class BucketHolds {
  /** Number of its record; 0 once it has lost its last hold. */
  record = 0;
  /** Used if the bucket is a token bucket. */
  readonly lows = new DebtLows();
}

/** The holds of all buckets of a store. Buckets are named by the hashes of their keys. */
export class HoldBook {
  readonly #records: HoldRecords;
  #counts: HoldCounts;
  readonly #holdsMax: number;
  /** Memory that only this book has. */
  readonly #own: JournaledMemory | undefined;
  /** The buckets of this step; the first `#openCount` are in use. */
  readonly #open: BucketHolds[] = [];
  #openCount = 0;
  #endingsLeft = ENDINGS_PER_STEP;

  /** `memory`: where the book lies in memory that it shares; by default it has its own. */
  constructor(
    holdsMax = 2 * HOLDS_PER_BUCKET_MAX,
    memory?: { readonly memory: JournaledMemory; readonly at: number },
    counts = new HoldCounts(),
  ) {
    if (memory === undefined) this.#own = ownMemory(holdBytes(holdsMax));
    this.#records = new HoldRecords(memory?.memory ?? (this.#own as JournaledMemory), memory?.at ?? 0, holdsMax);
    this.#counts = counts;
    this.#holdsMax = holdsMax;
  }

  /** Forgets everything, without a journal. No other thread may use the memory. */
  clear(): void {
    this.#records.clear();
    this.#own?.commit();
    this.#openCount = 0;
    this.#counts = new HoldCounts();
  }

  /** Number of all live holds. */
  get liveCount(): number {
    return this.#records.word(0, WORD.live);
  }

  /** Begins a step, which may end at most ENDINGS_PER_STEP holds. */
  beginStep(): void {
    this.#own?.commit();
    this.#openCount = 0;
    this.#endingsLeft = ENDINGS_PER_STEP;
  }

  /** Writes what the step has left in `lows`. */
  endStep(): void {
    for (let i = 0; i < this.#openCount; i++) {
      const bucket = this.#open[i] as BucketHolds;
      if (bucket.record !== 0) this.#records.writeLows(bucket.record, bucket.lows.numbers());
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
      if (open.record !== 0 && this.#records.isOf(open.record, bucket)) return open;
    }
    const record = this.#records.find(Kind.bucket, bucket, "");
    return record === 0 ? undefined : this.#openBucket(record);
  }

  sizeOf({ record }: BucketHolds): number {
    return record === 0 ? 0 : this.#records.word(record, WORD.size);
  }

  /** True if one more hold can be opened in the bucket. */
  hasRoom(bucket: KeyHash): boolean {
    if (this.liveCount >= this.#holdsMax) return false;
    const holds = this.of(bucket);
    return holds === undefined || this.sizeOf(holds) < HOLDS_PER_BUCKET_MAX;
  }

  /** The hold of that id, unless it has ended: an ended one may still wait here to be given back (ENDINGS_PER_STEP). */
  find(bucket: KeyHash, id: string, nowUs: number): Hold | undefined {
    const record = id === "" ? 0 : this.#records.find(Kind.hold, bucket, id);
    return record !== 0 && this.#records.number(record, NUMBER.endsAtUs) > nowUs ? this.#holdAt(record) : undefined;
  }

  /** The hold without an id that was paid at one time and ends at the other; undefined if there is none. */
  findNameless({ record }: BucketHolds, paidAtUs: number, endsAtUs: number): Hold | undefined {
    const records = this.#records;
    for (let at = records.word(record, WORD.last); at !== 0; at = records.word(at, WORD.before)) {
      const isPaidThen = records.word(at, WORD.kind) === Kind.hold && records.number(at, NUMBER.paidAtUs) === paidAtUs;
      if (isPaidThen && records.number(at, NUMBER.endsAtUs) === endsAtUs) return this.#holdAt(at);
    }
    return undefined;
  }

  /** The hold that ends soonest; undefined if the bucket has lost its last one. */
  first({ record }: BucketHolds): Hold | undefined {
    return record === 0 ? undefined : this.#holdAt(this.#records.word(record, WORD.first));
  }

  /** The bucket's hold that ends next after this one; undefined after its last one. */
  next({ record }: Hold): Hold | undefined {
    const after = this.#records.word(record, WORD.after);
    return after === 0 ? undefined : this.#holdAt(after);
  }

  /** Counts holds of the bucket that have ended by themselves. */
  countExpired({ record }: BucketHolds, count: number): void {
    this.#counts.statsOf(this.#records.word(record, WORD.stats)).holdsExpired += count;
  }

  /** Has `stats` count the holds of the bucket: those of the rule, or of a value if the rule counts by value. */
  countIn({ record }: BucketHolds, stats: LimitStats): void {
    this.#countIn(record, this.#counts.numberOf(stats));
  }

  /** Adds a hold, whose id belongs to no hold that has not ended. All holds of the bucket are counted in `stats` from now on. */
  add(bucket: KeyHash, limit: Limit, stats: LimitStats, hold: Omit<KeptHold, "payment">): void {
    const holds = this.#bucketOf(bucket, limit);
    this.countIn(holds, stats);
    holds.lows.hold(hold.cost * MICROS_PER_TOKEN);
    const ended = hold.id === "" ? 0 : this.#records.find(Kind.hold, bucket, hold.id);
    if (ended !== 0) this.#records.leave(ended);
    this.#addHold(bucket, holds.record, { ...hold, payment: holds.lows.last });
  }

  /** Adds holds of a bucket that were kept elsewhere, with the numbers of its lows. */
  keep(bucket: KeyHash, limit: Limit, lows: readonly number[], kept: readonly KeptHold[]): void {
    const holds = this.#bucketOf(bucket, limit);
    holds.lows.restore(lows);
    for (const hold of kept) this.#addHold(bucket, holds.record, hold);
    this.#records.writeLows(holds.record, holds.lows.numbers());
    this.#own?.commit();
  }

  /** All live holds of the bucket, those that end soonest first. */
  live({ record }: BucketHolds): KeptHold[] {
    const all: KeptHold[] = [];
    for (let at = this.#records.word(record, WORD.first); at !== 0; at = this.#records.word(at, WORD.after)) {
      const { cost, paidAtUs, endsAtUs, payment } = this.#holdAt(at);
      all.push({ id: this.#records.idOf(at), cost, paidAtUs, endsAtUs, payment });
    }
    return all;
  }

  remove(holds: BucketHolds, { record, cost }: Hold): void {
    holds.lows.release(cost * MICROS_PER_TOKEN);
    this.#removeHold(holds, record);
    if (this.sizeOf(holds) === 0) this.#removeBucket(holds);
  }

  /** Forgets the holds of the bucket without giving anything back. */
  drop(bucket: KeyHash): void {
    const holds = this.of(bucket);
    if (holds === undefined) return;
    for (let at = this.#records.word(holds.record, WORD.first); at !== 0; ) {
      const next = this.#records.word(at, WORD.after);
      this.#removeHold(holds, at);
      at = next;
    }
    this.#removeBucket(holds);
  }

  /** Remembers until `forgetAtUs` that the hold was settled. Does nothing for a hold without an id. */
  noteSettled(bucket: KeyHash, id: string, nowUs: number, forgetAtUs: number): void {
    if (id === "") return;
    const known = this.#records.find(Kind.settled, bucket, id);
    if (known !== 0) this.#dropSettled(known);
    for (let drops = 0; drops < SETTLED_DROPS; drops++) {
      const oldest = this.#records.word(0, WORD.firstSettled);
      const isFull = this.#records.word(0, WORD.settled) >= settledMaxOf(this.#holdsMax);
      if (oldest === 0 || (!isFull && this.#records.number(oldest, NUMBER.endsAtUs) > nowUs)) break;
      this.#dropSettled(oldest);
    }
    const record = this.#records.take(Kind.settled);
    this.#records.enter(record, bucket, id);
    this.#records.setNumber(record, NUMBER.endsAtUs, forgetAtUs);
    this.#records.insert(record, 0, WORD.firstSettled, this.#records.word(0, WORD.lastSettled));
    this.#records.add(0, WORD.settled, 1);
  }

  /** Whether a hold of that id is live, or was settled and is not forgotten yet. */
  knows(bucket: KeyHash, id: string, nowUs: number): boolean {
    return this.find(bucket, id, nowUs) !== undefined || this.forgetAtUs(bucket, id) > nowUs;
  }

  /** When it may be forgotten that the hold of that id was settled; 0 if it was not. */
  forgetAtUs(bucket: KeyHash, id: string): number {
    const record = id === "" ? 0 : this.#records.find(Kind.settled, bucket, id);
    return record === 0 ? 0 : this.#records.number(record, NUMBER.endsAtUs);
  }

  /**
   * Looks at the next records for a bucket whose first hold has ended, so that holds end also where no call asks. Returns the limit that
   * opened its last hold, and writes its hash; undefined if there is none among them.
   */
  nextEnded(nowUs: number, into: KeyHash): Limit | undefined {
    const records = this.#records;
    const made = records.word(0, WORD.made);
    let record = records.word(0, WORD.lookedAt);
    for (let looks = Math.min(LOOKS_PER_STEP, made); looks > 0; looks--) {
      record = record < made ? record + 1 : 1;
      if (records.kindOf(record) !== Kind.bucket) continue;
      if (records.number(records.word(record, WORD.first), NUMBER.endsAtUs) > nowUs) continue;
      records.setWord(0, WORD.lookedAt, record);
      records.readHash(record, into);
      return this.#records.limitOf(record);
    }
    records.setWord(0, WORD.lookedAt, record);
    return undefined;
  }

  /** Records that are or were in use; `isBucketAt` and `settledAt` take numbers from 1 to this. */
  get made(): number {
    return this.#records.word(0, WORD.made);
  }

  /** Whether the record belongs to a bucket, whose hash it then writes. */
  isBucketAt(record: number, into: KeyHash): boolean {
    const isBucket = this.#records.kindOf(record) === Kind.bucket;
    if (isBucket) this.#records.readHash(record, into);
    return isBucket;
  }

  /** The settled id of the record, if it has one, whose bucket's hash it then writes. */
  settledAt(record: number, into: KeyHash): { readonly id: string; readonly forgetAtUs: number } | undefined {
    if (this.#records.kindOf(record) !== Kind.settled) return undefined;
    this.#records.readHash(record, into);
    return { id: this.#records.idOf(record), forgetAtUs: this.#records.number(record, NUMBER.endsAtUs) };
  }

  /** The limit that opened the bucket's last hold, as far as a store needs it. */
  limitOf({ record }: BucketHolds): Limit {
    return this.#records.limitOf(record);
  }

  #openBucket(record: number): BucketHolds {
    const holds = this.#open[this.#openCount] ?? new BucketHolds();
    this.#open[this.#openCount++] = holds;
    holds.record = record;
    holds.lows.restore(this.#records.lowsOf(record));
    return holds;
  }

  /** The bucket with holds, which becomes one if it is not. */
  #bucketOf(bucket: KeyHash, limit: Limit): BucketHolds {
    let holds = this.of(bucket);
    if (holds === undefined) {
      const record = this.#records.take(Kind.bucket);
      for (const word of [WORD.first, WORD.last, WORD.size, WORD.lows]) this.#records.setWord(record, word, 0);
      this.#records.setWord(record, WORD.stats, this.#counts.numberOf(limit.stats));
      this.#records.enter(record, bucket, "");
      holds = this.#openBucket(record);
      holds.lows.restore([]);
    }
    this.#records.writeLimit(holds.record, limit);
    return holds;
  }

  #removeBucket(holds: BucketHolds): void {
    this.#records.dropLows(holds.record);
    this.#records.leave(holds.record);
    this.#records.release(holds.record);
    holds.record = 0;
  }

  #addHold(key: KeyHash, bucket: number, { id, cost, paidAtUs, endsAtUs, payment }: KeptHold): void {
    const records = this.#records;
    const record = records.take(Kind.hold);
    if (id !== "") records.enter(record, key, id);
    records.setNumber(record, NUMBER.cost, cost);
    records.setNumber(record, NUMBER.paidAtUs, paidAtUs);
    records.setNumber(record, NUMBER.endsAtUs, endsAtUs);
    records.setNumber(record, NUMBER.payment, payment);
    let before = records.word(bucket, WORD.last);
    // Not always the last: time may have stepped back, or the rule's ttl was edited.
    while (before !== 0 && records.number(before, NUMBER.endsAtUs) > endsAtUs)
      before = records.word(before, WORD.before);
    records.insert(record, bucket, WORD.first, before);
    this.#countHold(bucket, 1);
  }

  #removeHold({ record: bucket }: BucketHolds, record: number): void {
    if (this.#records.hasId(record)) this.#records.leave(record);
    this.#records.cut(record, bucket, WORD.first);
    this.#records.release(record);
    this.#countHold(bucket, -1);
  }

  #countHold(bucket: number, count: number): void {
    this.#records.add(bucket, WORD.size, count);
    this.#records.add(0, WORD.live, count);
    this.#counts.statsOf(this.#records.word(bucket, WORD.stats)).holdsLive += count;
  }

  #countIn(bucket: number, number: number): void {
    const known = this.#records.word(bucket, WORD.stats);
    if (known === number) return;
    const size = this.#records.word(bucket, WORD.size);
    this.#counts.statsOf(known).holdsLive -= size;
    this.#counts.statsOf(number).holdsLive += size;
    this.#records.setWord(bucket, WORD.stats, number);
  }

  #dropSettled(record: number): void {
    this.#records.leave(record);
    this.#records.cut(record, 0, WORD.firstSettled);
    this.#records.release(record);
    this.#records.add(0, WORD.settled, -1);
  }

  #holdAt(record: number): Hold {
    const records = this.#records;
    return {
      record,
      cost: records.number(record, NUMBER.cost),
      paidAtUs: records.number(record, NUMBER.paidAtUs),
      endsAtUs: records.number(record, NUMBER.endsAtUs),
      payment: records.number(record, NUMBER.payment),
    };
  }
}
