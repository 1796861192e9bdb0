// Counts of keys within bounds, and their sums. A sum of bounds is a bound, whatever the sketches have lost.

/** Counts of some keys, index by index: each lies between `least` and `most`. */
export interface Tally<Key> {
  readonly keys: readonly Key[];
  readonly least: readonly number[];
  readonly most: readonly number[];
  /** The most that any other key can have. */
  readonly rest: number;
  /** The sum of all keys' counts, exact. */
  readonly total: number;
}

/** A count between two bounds, both inclusive. */
export interface Between {
  readonly least: number;
  readonly most: number;
}

interface Counted {
  least: number;
  /** The key's upper bound minus the sum's rest. */
  above: number;
}

/** The sum of tallies. A key that a tally lacks has at most that tally's rest there. */
export class TallySum<Key> {
  readonly #byKey = new Map<Key, Counted>();
  #rest = 0;
  #total = 0;

  /** Adds a tally. `onNew` is told each key that the sum did not have. */
  add({ keys, least, most, rest, total }: Tally<Key>, onNew?: (key: Key) => void): void {
    this.#rest += rest;
    this.#total += total;
    keys.forEach((key, i) => {
      let counted = this.#byKey.get(key);
      if (counted === undefined) {
        counted = { least: 0, above: 0 };
        this.#byKey.set(key, counted);
        onNew?.(key);
      }
      counted.least += least[i] as number;
      counted.above += (most[i] as number) - rest;
    });
  }

  /**
   * Drops keys until there are at most `keysMax`: lowers all counts by the same number, and drops keys that reach zero (Agarwal and
   * others: Mergeable Summaries, 2012). After `n` additions the rest has grown by n / keysMax at most in all.
   */
  prune(keysMax: number, onDropped: (key: Key) => void): void {
    if (this.#byKey.size <= keysMax) return;
    const down = [...this.#byKey.values()].map(({ above }) => above).sort((one, other) => other - one)[keysMax] ?? 0;
    // A negative `down` belongs to keys below the rest; they are dropped, and the rest covers them already.
    if (down > 0) this.#rest += down;
    for (const [key, counted] of this.#byKey) {
      counted.above -= Math.max(0, down);
      if (counted.above > 0) continue;
      this.#byKey.delete(key);
      onDropped(key);
    }
  }

  get keys(): IterableIterator<Key> {
    return this.#byKey.keys();
  }

  get rest(): number {
    return this.#rest;
  }

  get total(): number {
    return this.#total;
  }

  /** The bounds of a key's count. */
  of(key: Key): Between {
    const counted = this.#byKey.get(key);
    if (counted === undefined) return { least: 0, most: this.#rest };
    return { least: counted.least, most: this.#rest + counted.above };
  }

  tally(): Tally<Key> {
    const keys = [...this.#byKey.keys()];
    const counts = keys.map((key) => this.of(key));
    return {
      keys,
      least: counts.map(({ least }) => least),
      most: counts.map(({ most }) => most),
      rest: this.#rest,
      total: this.#total,
    };
  }
}
