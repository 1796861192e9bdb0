// Counts of keys within bounds, and their sums. A sum of bounds is a bound, whatever the sketches have lost.

/** A count between two bounds, both inclusive. */
export interface Between {
  readonly least: number;
  readonly most: number;
}

interface Counted {
  least: number;
  /** The key's upper bound minus the rest. */
  above: number;
}

/** Counts of some keys, and a bound for all others. */
export class Tally<Key> {
  readonly #byKey = new Map<Key, Counted>();
  /** The most that any other key can have. */
  rest: number;
  /** The sum of all keys' counts, exact. */
  total: number;

  constructor(rest = 0, total = 0) {
    this.rest = rest;
    this.total = total;
  }

  get keys(): readonly Key[] {
    return [...this.#byKey.keys()];
  }

  /** The bounds of a key's count. */
  of(key: Key): Between {
    const counted = this.#byKey.get(key);
    if (counted === undefined) return { least: 0, most: this.rest };
    return { least: counted.least, most: this.rest + counted.above };
  }

  /**
   * Adds to the key's count, and returns whether the tally did not have the key. `rest` is what the key had at most
   * without it.
   */
  count(key: Key, { least, most }: Between, rest: number): boolean {
    const counted = this.#byKey.get(key);
    if (counted === undefined) {
      this.#byKey.set(key, { least, above: most - rest });
      return true;
    }
    counted.least += least;
    counted.above += most - rest;
    return false;
  }

  /**
   * Adds a tally. A key that either lacks has at most its rest there. `onNew` gets each key that this one did not have.
   */
  add(tally: Tally<Key>, onNew?: (key: Key) => unknown): void {
    this.rest += tally.rest;
    this.total += tally.total;
    for (const key of tally.#byKey.keys()) if (this.count(key, tally.of(key), tally.rest)) onNew?.(key);
  }

  /**
   * Drops keys until there are at most `keysMax`: lowers all counts by the same number, and drops keys that reach zero
   * (Agarwal and others: Mergeable Summaries, 2012). After `n` additions the rest has grown by n / keysMax at most in
   * all.
   */
  prune(keysMax: number, onDropped: (key: Key) => void): void {
    if (this.#byKey.size <= keysMax) return;
    const down = [...this.#byKey.values()].map(({ above }) => above).sort((one, other) => other - one)[keysMax] ?? 0;
    // A negative `down` belongs to keys below the rest; they are dropped, and the rest covers them already.
    if (down > 0) this.rest += down;
    for (const [key, counted] of this.#byKey) {
      counted.above -= Math.max(0, down);
      if (counted.above > 0) continue;
      this.#byKey.delete(key);
      onDropped(key);
    }
  }
}
