// How often each number occurred, in bounded memory: small numbers exactly, large ones rounded up by less than one part in 128.

/** Numbers up to this one are exact. */
const EXACT_MAX = 256;
const STEPS_LOG2 = 7;

/** Counts whole numbers from 0 to 2^53 - 1; at most some 6,000 are told apart. */
export class RoundedCounts {
  /** How many numbers there were, and the largest. */
  size = 0;
  max = 0;
  readonly #counts = new Map<number, number>();

  add(value: number): void {
    const kept = roundedUp(value);
    this.#counts.set(kept, (this.#counts.get(kept) ?? 0) + 1);
    this.size++;
    this.max = Math.max(this.max, value);
  }

  /** The smallest kept number that at least `share` (0 to 1) of all do not exceed; 0 without any. */
  at(share: number): number {
    let rest = Math.ceil(share * this.size);
    for (const [value, count] of [...this.#counts].sort(([one], [other]) => one - other)) {
      rest -= count;
      if (rest <= 0) return Math.min(value, this.max);
    }
    return this.max;
  }
}

function roundedUp(value: number): number {
  if (value <= EXACT_MAX) return value;
  const step = 2 ** (Math.floor(Math.log2(value)) - STEPS_LOG2);
  return Math.ceil(value / step) * step;
}
