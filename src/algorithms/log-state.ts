// The entries of one sliding log: when and how much, oldest first, in typed arrays. What a group pays is held beside
// them until `commit`, so that undoing it is exact and a refusal leaves the entries as they were.

/** Most entries of one log; more are merged into the newest, which errs to the strict side. */
export const SLIDING_LOG_MAX = 10_000;

const CAPACITY_MIN = 8;
const EMPTY = new Float64Array(0);

/**
 * Entries `head` to `end` are kept; those from `first` on still count at `effectiveUs`. Costs are kept as running sums,
 * so that totals and waits need no walk over the entries.
 */
export class LogState {
  #times = EMPTY;
  /** Sum of the costs of all entries up to and with this one, and of `#base`. */
  #sums = EMPTY;
  /** The running sum before `#head`. */
  #base = 0;
  #head = 0;
  #end = 0;
  #first = 0;

  /** The time that entries are judged and paid at; later ones are read as dated then. */
  effectiveUs = 0;
  /** Cost paid at `effectiveUs` that is no entry yet. */
  pending = 0;

  /** Entries that count. */
  get count(): number {
    return this.#end - this.#first;
  }

  /** Entries in memory, those that no longer count included. */
  get kept(): number {
    return this.#end - this.#head;
  }

  /** Costs of all entries that count, and what is pending. */
  get total(): number {
    return this.#sumThrough(this.#end - 1) - this.#sumThrough(this.#first - 1) + this.pending;
  }

  /** Time of the newest entry in memory; -Infinity if there is none. */
  get newestKeptUs(): number {
    return this.#end > this.#head ? (this.#times[this.#end - 1] ?? 0) : Number.NEGATIVE_INFINITY;
  }

  /** Time of the newest payment that counts; -Infinity if there is none. */
  get newestUs(): number {
    if (this.pending > 0) return this.effectiveUs;
    return this.count > 0 ? this.#timeOf(this.#end - 1) : Number.NEGATIVE_INFINITY;
  }

  clear(effectiveUs: number): void {
    this.#head = 0;
    this.#end = 0;
    this.#first = 0;
    this.#base = 0;
    this.effectiveUs = effectiveUs;
    this.pending = 0;
  }

  /** Looks at the entries as of `effectiveUs`: those up to `oldestUs` no longer count. Changes no entry. */
  view(effectiveUs: number, oldestUs: number): void {
    this.effectiveUs = effectiveUs;
    this.pending = 0;
    let low = this.#head;
    let high = this.#end;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#times[middle] ?? 0) > oldestUs) high = middle;
      else low = middle + 1;
    }
    this.#first = low;
  }

  /** Time of the entry whose end frees `cost`, counted from the oldest. `cost` is at most `total`. */
  timeThatFrees(cost: number): number {
    const sum = this.#sumThrough(this.#first - 1) + cost;
    let low = this.#first;
    let high = this.#end;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#sums[middle] ?? 0) >= sum) high = middle;
      else low = middle + 1;
    }
    if (low === this.#end) return this.effectiveUs;
    return low === this.#end - 1 && this.#mergesPending() ? this.effectiveUs : this.#timeOf(low);
  }

  /** Makes what was viewed and paid the entries: old ones go, late ones are dated `effectiveUs`, `pending` is added. */
  commit(): void {
    this.#base = this.#sumThrough(this.#first - 1);
    this.#head = this.#first;
    for (let i = this.#end - 1; i >= this.#head && (this.#times[i] ?? 0) > this.effectiveUs; i--) {
      this.#times[i] = this.effectiveUs;
    }
    if (this.pending === 0) return;
    if (this.#mergesPending()) {
      this.#times[this.#end - 1] = this.effectiveUs;
      this.#sums[this.#end - 1] = this.#sumThrough(this.#end - 1) + this.pending;
    } else {
      if (this.#end === this.#times.length) this.#makeRoom();
      this.#times[this.#end] = this.effectiveUs;
      this.#sums[this.#end] = this.#sumThrough(this.#end - 1) + this.pending;
      this.#end++;
    }
    this.pending = 0;
  }

  /** Takes up to `cost` off, newest payments first. Commits if that reaches the entries. */
  takeOffNewest(cost: number): void {
    let left = cost - Math.min(this.pending, cost);
    this.pending -= cost - left;
    if (left === 0 || this.count === 0) return;
    this.commit();
    while (left > 0 && this.#end > this.#head) {
      const newest = this.#end - 1;
      const entry = this.#sumThrough(newest) - this.#sumThrough(newest - 1);
      if (entry > left) {
        this.#sums[newest] = this.#sumThrough(newest) - left;
        return;
      }
      this.#end--;
      left -= entry;
    }
  }

  /** Takes up to `cost` off the newest entry of that time, if there is one. Commits if so. */
  takeOffAt(timeUs: number, cost: number): void {
    let index = this.#end - 1;
    while (index >= this.#first && this.#timeOf(index) > timeUs) index--;
    if (index < this.#first || this.#timeOf(index) !== timeUs) return;
    this.commit();
    const entry = this.#sumThrough(index) - this.#sumThrough(index - 1);
    const off = Math.min(entry, cost);
    for (let i = index; i < this.#end; i++) this.#sums[i] = (this.#sums[i] ?? 0) - off;
    if (off === entry) {
      this.#times.copyWithin(index, index + 1, this.#end);
      this.#sums.copyWithin(index, index + 1, this.#end);
      this.#end--;
    }
  }

  #timeOf(index: number): number {
    return Math.min(this.#times[index] ?? 0, this.effectiveUs);
  }

  #sumThrough(index: number): number {
    return index < this.#head ? this.#base : (this.#sums[index] ?? 0);
  }

  /** Whether `pending` joins the newest entry: it has the same time, or there is no place for one more. */
  #mergesPending(): boolean {
    if (this.pending === 0 || this.count === 0) return false;
    return this.count >= SLIDING_LOG_MAX || this.#timeOf(this.#end - 1) === this.effectiveUs;
  }

  /** Moves the entries to the front, of larger arrays if they fill half or more. Sums start from 0 again. */
  #makeRoom(): void {
    const count = this.#end - this.#head;
    const isTight = count * 2 >= this.#times.length;
    const capacity = isTight ? Math.max(CAPACITY_MIN, this.#times.length * 2) : this.#times.length;
    const times = isTight ? new Float64Array(capacity) : this.#times;
    const sums = isTight ? new Float64Array(capacity) : this.#sums;
    for (let i = 0; i < count; i++) {
      times[i] = this.#times[this.#head + i] ?? 0;
      sums[i] = (this.#sums[this.#head + i] ?? 0) - this.#base;
    }
    this.#times = times;
    this.#sums = sums;
    this.#head = 0;
    this.#first = 0;
    this.#end = count;
    this.#base = 0;
  }
}
