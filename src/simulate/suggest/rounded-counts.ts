// How often each number came, in bounded memory: small ones exactly, large ones rounded up by less than one part in 128.

/** Up to this number each stands for itself. */
const EXACT_MAX = 256;
const STEPS_LOG2 = 7;

/** Counts whole numbers from 0 to 2^53 - 1; at most some 6,000 are told apart. */
export class RoundedCounts {
  /** How many have come, and the largest of them. */
  size = 0;
  max = 0;
  readonly #counts = new Map<number, number>();

  add(value: number): void {
    const kept = roundedUp(value);
    this.#counts.set(kept, (this.#counts.get(kept) ?? 0) + 1);
    this.size++;
    this.max = Math.max(this.max, value);
  }

  /** A number that at least `share` (0 to 1) of all do not exceed, and no other kept below it; 0 if none has come. */
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
