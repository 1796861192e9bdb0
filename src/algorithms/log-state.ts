// A view of the entries of one sliding log: times and costs, oldest first. What a group pays is kept apart as `pending` until
// `commit`, so that undoing it is exact and a refusal leaves the entries as they were. log-blocks.ts holds the entries.

import { ENTRIES_PER_BLOCK, LogBlocks, type LogHead } from "./log-blocks.ts";
import { isOneGranule, LOG_FINE_MAX } from "./log-granules.ts";

const LAST_SLOT = ENTRIES_PER_BLOCK - 1;
/** Running sums are lowered when they pass this, so that they stay below 2^53: a payment adds at most 2^33. */
const SUM_MAX = 2 ** 52;

/**
 * Entries hold running sums in place of costs, so that totals and waits walk over blocks and not over entries. The object can be
 * opened on one log after another, which drops what was not committed.
 */
export class LogState implements LogHead {
  readonly #blocks: LogBlocks;
  #root = 0;
  #stamp = 0;
  first = 0;
  start = 0;
  tail = 0;
  end = 0;
  kept = 0;
  blocks = 0;
  base = 0;

  // The oldest entry that still counts: the number of entries before it, its block and slot, the running sum before it.
  #skipped = 0;
  #atBlock = 0;
  #atSlot = 0;
  #before = 0;
  /** Blocks before the one of that entry. */
  #passed = 0;

  // The entry that `#find` found.
  #foundBlock = 0;
  #foundSlot = 0;

  /** The time at which entries are judged and paid, in microseconds. Entries dated later count as dated then. */
  effectiveUs = 0;
  /** Cost paid at `effectiveUs` that is not in an entry yet. */
  pending = 0;
  /** Length of a granule in microseconds. Must be set by the caller that opens or clears the log. */
  granuleUs = 1;

  constructor(blocks = new LogBlocks()) {
    this.#blocks = blocks;
  }

  /** Root block of the log; 0 if it has no entries yet. */
  get place(): number {
    return this.#root;
  }

  /** Number of entries that count. */
  get count(): number {
    return this.kept - this.#skipped;
  }

  /** Costs of all entries that count, plus `pending`. */
  get total(): number {
    return this.#lastSum() - this.#before + this.pending;
  }

  /** Time of the newest entry as it is kept; -Infinity if there is none. */
  get newestKeptUs(): number {
    return this.kept > 0 ? this.#blocks.timeAt(this.tail, this.end - 1) : Number.NEGATIVE_INFINITY;
  }

  /** Time of the newest payment that counts; -Infinity if there is none. */
  get newestUs(): number {
    if (this.pending > 0) return this.effectiveUs;
    return this.count > 0 ? this.#newestDatedUs() : Number.NEGATIVE_INFINITY;
  }

  /** Opens the log whose root block is `place`. `view` must be called next. */
  open(place: number): void {
    this.#root = place;
    this.#stamp = this.#blocks.stampOf(place);
    this.#blocks.readHead(place, this);
    this.#viewAll();
  }

  /** Begins a log without entries. */
  clear(effectiveUs: number): void {
    this.#root = 0;
    this.first = 0;
    this.start = 0;
    this.tail = 0;
    this.end = 0;
    this.kept = 0;
    this.blocks = 0;
    this.base = 0;
    this.#viewAll();
    this.effectiveUs = effectiveUs;
    this.pending = 0;
  }

  /** Sets the view to `effectiveUs`: entries up to `oldestUs` no longer count. Changes no entry. */
  view(effectiveUs: number, oldestUs: number): void {
    this.effectiveUs = effectiveUs;
    this.pending = 0;
    this.#viewAll();
    if (this.kept === 0) return;
    if (this.newestKeptUs <= oldestUs) {
      this.#skipped = this.kept;
      this.#before = this.#lastSum();
      return;
    }
    const blocks = this.#blocks;
    while (this.#atBlock !== this.tail && blocks.timeAt(this.#atBlock, LAST_SLOT) <= oldestUs) {
      this.#skipped += ENTRIES_PER_BLOCK - this.#atSlot;
      this.#before = blocks.sumAt(this.#atBlock, LAST_SLOT);
      this.#atBlock = blocks.nextOf(this.#atBlock);
      this.#atSlot = 0;
      this.#passed++;
    }
    while (blocks.timeAt(this.#atBlock, this.#atSlot) <= oldestUs) {
      this.#before = blocks.sumAt(this.#atBlock, this.#atSlot);
      this.#atSlot++;
      this.#skipped++;
    }
  }

  /** True if there is memory for a payment now. If it needs a block, the block is promised until the next group begins. */
  reserve(): boolean {
    return this.pending > 0 || this.#merges() || !this.#needsBlock() || this.#blocks.promise();
  }

  /** Time of the entry with whose end the oldest entries have freed `cost`. `cost` is at most `total`. */
  timeThatFrees(cost: number): number {
    const sum = this.#before + cost;
    if (this.count === 0 || sum > this.#lastSum()) return this.effectiveUs;
    const block = this.#blockThatReaches(sum);
    const blocks = this.#blocks;
    let slot = block === this.#atBlock ? this.#atSlot : 0;
    while (blocks.sumAt(block, slot) < sum) slot++;
    const isNewest = block === this.tail && slot === this.end - 1;
    if (isNewest && this.pending > 0 && this.#merges()) return this.effectiveUs;
    return Math.min(blocks.timeAt(block, slot), this.effectiveUs);
  }

  /** Writes the view into the entries: drops old ones, dates later ones `effectiveUs`, adds `pending`. */
  commit(): void {
    // The store may have dropped the log since it was opened; the payment then begins a new one.
    if (this.#root !== 0 && this.#blocks.stampOf(this.#root) !== this.#stamp) this.#lose();
    this.#dropOld();
    this.#dateLate();
    if (this.pending > 0) this.#addPending();
    this.pending = 0;
    this.#keep();
  }

  /** Takes up to `cost` off the newest payments. Commits first if `pending` alone is not enough. */
  takeOffNewest(cost: number): void {
    let left = cost - Math.min(this.pending, cost);
    this.pending -= cost - left;
    if (left === 0 || this.count === 0) return;
    this.commit();
    while (left > 0 && this.kept > 0) {
      const sum = this.#lastSum();
      const entry = sum - this.#sumBefore(this.tail, this.end - 1);
      if (entry > left) {
        this.#blocks.setSum(this.tail, this.end - 1, sum - left);
        break;
      }
      this.#dropNewest();
      left -= entry;
    }
    this.#keep();
  }

  /** Takes up to `cost` off the newest entry of that time, or else off the entry that a payment of that time was joined to. */
  takeOffAt(timeUs: number, cost: number): void {
    if (!this.#find(timeUs)) return;
    this.commit();
    if (!this.#find(timeUs)) return;
    const block = this.#foundBlock;
    const slot = this.#foundSlot;
    const entry = this.#blocks.sumAt(block, slot) - this.#sumBefore(block, slot);
    const off = Math.min(entry, cost);
    this.#lowerSums(block, slot, off);
    if (off === entry) this.#remove(block, slot);
    this.#keep();
  }

  /** Finds the newest counting entry of that time, else the next later one in its granule. False if there is none. */
  #find(timeUs: number): boolean {
    let block = this.tail;
    let slot = this.end - 1;
    let isFound = false;
    for (let left = this.count; left > 0; left--) {
      const datedUs = Math.min(this.#blocks.timeAt(block, slot), this.effectiveUs);
      if (datedUs < timeUs) return isFound;
      if (isOneGranule(datedUs, timeUs, this.granuleUs)) {
        this.#foundBlock = block;
        this.#foundSlot = slot;
        isFound = true;
      }
      if (datedUs === timeUs) return true;
      if (slot === 0) {
        block = this.#blocks.previousOf(block);
        slot = ENTRIES_PER_BLOCK;
      }
      slot--;
    }
    return isFound;
  }

  #viewAll(): void {
    this.#skipped = 0;
    this.#passed = 0;
    this.#atBlock = this.first;
    this.#atSlot = this.start;
    this.#before = this.base;
  }

  #keep(): void {
    if (this.#root !== 0) this.#blocks.writeHead(this.#root, this);
    this.#viewAll();
  }

  #lose(): void {
    const { pending, effectiveUs } = this;
    this.clear(effectiveUs);
    this.pending = pending;
  }

  #dropOld(): void {
    if (this.#skipped === this.kept) this.#empty();
    else if (this.#skipped > 0) {
      const blocks = this.#blocks;
      const dropped = this.#blocksToDrop();
      if (dropped > 0) blocks.drop(blocks.nextOf(this.#root), blocks.previousOf(this.#atBlock), dropped);
      if (this.#atBlock !== this.#root) blocks.join(this.#root, this.#atBlock);
      this.blocks -= dropped;
      this.kept -= this.#skipped;
      this.first = this.#atBlock;
      this.start = this.#atSlot;
      this.base = this.#before;
    }
    this.#viewAll();
  }

  /** Number of blocks without an entry that counts, except the root, which stays. */
  #blocksToDrop(): number {
    return this.first === this.#root ? Math.max(0, this.#passed - 1) : this.#passed;
  }

  #empty(): void {
    if (this.blocks > 1) this.#blocks.drop(this.#blocks.nextOf(this.#root), this.tail, this.blocks - 1);
    this.first = this.#root;
    this.start = 0;
    this.tail = this.#root;
    this.end = 0;
    this.kept = 0;
    this.blocks = Math.min(1, this.blocks);
    this.base = 0;
  }

  #dateLate(): void {
    let block = this.tail;
    let slot = this.end - 1;
    for (let left = this.kept; left > 0 && this.#blocks.timeAt(block, slot) > this.effectiveUs; left--) {
      this.#blocks.setTime(block, slot, this.effectiveUs);
      if (slot === 0) {
        block = this.#blocks.previousOf(block);
        slot = ENTRIES_PER_BLOCK;
      }
      slot--;
    }
  }

  #addPending(): void {
    const blocks = this.#blocks;
    const sum = this.#lastSum() + this.pending;
    if (this.#merges()) {
      blocks.setTime(this.tail, this.end - 1, this.effectiveUs);
      blocks.setSum(this.tail, this.end - 1, sum);
    } else {
      if (this.#root === 0) this.#begin();
      else if (this.end === ENTRIES_PER_BLOCK) this.#addBlock();
      blocks.setTime(this.tail, this.end, this.effectiveUs);
      blocks.setSum(this.tail, this.end, sum);
      this.end++;
      this.kept++;
    }
    if (sum > SUM_MAX) {
      this.#lowerSums(this.first, this.start, this.base);
      this.base = 0;
    }
  }

  #begin(): void {
    this.#root = this.#blocks.addRoot();
    this.#stamp = this.#blocks.stampOf(this.#root);
    this.first = this.#root;
    this.tail = this.#root;
    this.blocks = 1;
  }

  #addBlock(): void {
    const block = this.#blocks.add();
    this.#blocks.join(this.tail, block);
    this.tail = block;
    this.end = 0;
    this.blocks++;
  }

  #dropNewest(): void {
    this.kept--;
    this.end--;
    if (this.kept === 0) this.#empty();
    else if (this.end === 0) {
      const block = this.tail;
      this.tail = this.#blocks.previousOf(block);
      this.end = ENTRIES_PER_BLOCK;
      this.#blocks.drop(block, block, 1);
      this.blocks--;
    }
  }

  /** Removes the entry by moving all newer ones one slot back. */
  #remove(fromBlock: number, fromSlot: number): void {
    const blocks = this.#blocks;
    let block = fromBlock;
    let slot = fromSlot;
    while (block !== this.tail || slot !== this.end - 1) {
      const nextBlock = slot === LAST_SLOT ? blocks.nextOf(block) : block;
      const nextSlot = slot === LAST_SLOT ? 0 : slot + 1;
      blocks.setTime(block, slot, blocks.timeAt(nextBlock, nextSlot));
      blocks.setSum(block, slot, blocks.sumAt(nextBlock, nextSlot));
      block = nextBlock;
      slot = nextSlot;
    }
    this.#dropNewest();
  }

  /** Lowers the running sums of that entry and all newer ones. */
  #lowerSums(fromBlock: number, fromSlot: number, by: number): void {
    const blocks = this.#blocks;
    let block = fromBlock;
    let slot = fromSlot;
    for (;;) {
      blocks.setSum(block, slot, blocks.sumAt(block, slot) - by);
      if (block === this.tail && slot === this.end - 1) return;
      if (slot === LAST_SLOT) block = blocks.nextOf(block);
      slot = slot === LAST_SLOT ? 0 : slot + 1;
    }
  }

  /** The block of the first entry whose running sum is at least `sum`, searched from the nearer end. */
  #blockThatReaches(sum: number): number {
    const blocks = this.#blocks;
    if (sum - this.#before <= (this.#lastSum() - this.#before) / 2) {
      let block = this.#atBlock;
      while (block !== this.tail && blocks.sumAt(block, LAST_SLOT) < sum) block = blocks.nextOf(block);
      return block;
    }
    let block = this.tail;
    while (block !== this.#atBlock && blocks.sumAt(blocks.previousOf(block), LAST_SLOT) >= sum)
      block = blocks.previousOf(block);
    return block;
  }

  #sumBefore(block: number, slot: number): number {
    if (block === this.first && slot === this.start) return this.base;
    return slot > 0
      ? this.#blocks.sumAt(block, slot - 1)
      : this.#blocks.sumAt(this.#blocks.previousOf(block), LAST_SLOT);
  }

  #lastSum(): number {
    return this.kept > 0 ? this.#blocks.sumAt(this.tail, this.end - 1) : this.base;
  }

  #newestDatedUs(): number {
    return Math.min(this.newestKeptUs, this.effectiveUs);
  }

  /** Whether a payment joins the newest entry: it has the same time, or, from LOG_FINE_MAX entries on, the same granule. */
  #merges(): boolean {
    if (this.count === 0) return false;
    const newestUs = this.#newestDatedUs();
    if (newestUs === this.effectiveUs) return true;
    return this.count >= LOG_FINE_MAX && isOneGranule(newestUs, this.effectiveUs, this.granuleUs);
  }

  /** Whether one more entry needs one more block, after old ones are dropped. */
  #needsBlock(): boolean {
    if (this.#root === 0) return true;
    if (this.#skipped === this.kept || this.end < ENTRIES_PER_BLOCK) return false;
    return this.#blocksToDrop() === 0;
  }
}
