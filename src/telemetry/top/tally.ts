// What keys came to, within bounds, and sums of that. Sums of bounds are bounds, whatever the sketches they come from have lost.

/** Counts of some keys, index by index: each came to `least` or more and to `most` or less. */
export interface Tally<Key> {
  readonly keys: readonly Key[];
  readonly least: readonly number[];
  readonly most: readonly number[];
  /** What any other key came to at most. */
  readonly rest: number;
}

/** A count that is known within bounds. */
export interface Between {
  readonly least: number;
  readonly most: number;
}

interface Counted {
  least: number;
  /** What its most is more than the rest. */
  above: number;
}

/** The sum of tallies. A key that is missing in one of them came to its rest at most there. */
export class TallySum<Key> {
  readonly #byKey = new Map<Key, Counted>();
  #rest = 0;

  /** `onNew` hears of each key that was not among those of the sum. */
  add({ keys, least, most, rest }: Tally<Key>, onNew?: (key: Key) => void): void {
    this.#rest += rest;
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
   * Drops keys until there are at most `keysMax`: all are counted down together, and those go that come to nothing (Agarwal and
   * others: Mergeable Summaries, 2012). Of `n` that were added, the rest grows by n / keysMax at most in all.
   */
  prune(keysMax: number, onDropped: (key: Key) => void): void {
    if (this.#byKey.size <= keysMax) return;
    const down = [...this.#byKey.values()].map(({ above }) => above).sort((one, other) => other - one)[keysMax] ?? 0;
    // What came to less than the rest comes to no more than it afterwards.
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

  /** What a key came to. */
  of(key: Key): Between {
    const counted = this.#byKey.get(key);
    if (counted === undefined) return { least: 0, most: this.#rest };
    return { least: counted.least, most: this.#rest + counted.above };
  }

  tally(): Tally<Key> {
    const keys = [...this.#byKey.keys()];
    const counts = keys.map((key) => this.of(key));
    return { keys, least: counts.map(({ least }) => least), most: counts.map(({ most }) => most), rest: this.#rest };
  }
}
