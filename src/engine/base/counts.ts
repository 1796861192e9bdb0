// Groups of counters: written in the row of this thread, read in all rows (shared-counts.ts). A part that counts for itself has rows
// of its own.

import { InvariantError } from "./invariant.ts";
import type { CountRows, SharedCounts } from "./shared-counts.ts";

/** Where a group counts: `at` is its first cell. */
export interface CountPlace {
  readonly counts: CountRows;
  readonly at: number;
}

/** A place in a row that nobody else has. */
export function placeAlone(cells: number): CountPlace {
  const own = new Float64Array(cells);
  return { counts: { own, rows: [own], common: new Float64Array(cells) }, at: 0 };
}

/** The place of a name that is never given up; a place alone without `counts`. */
export function placeOf(counts: SharedCounts | undefined, name: string, cells: number): CountPlace {
  if (counts === undefined) return placeAlone(cells);
  const at = counts.group(name, cells);
  if (at === undefined) throw new InvariantError(`there is no place for the counters of ${name}`);
  return { counts, at };
}

/** Counters in consecutive cells. */
export class Counts {
  /** The row of this thread, and the first cell, which is the same in each row. */
  #own: Float64Array;
  #at: number;
  #counts: CountRows;

  constructor({ counts, at }: CountPlace) {
    this.#own = counts.own;
    this.#counts = counts;
    this.#at = at;
  }

  /** Gives a class of counters a property for one of them. */
  static addProperty(prototype: Counts, name: string, index: number): void {
    Object.defineProperty(prototype, name, {
      get(this: Counts): number {
        return this.#own[this.#at + index] as number;
      },
      set(this: Counts, value: number): void {
        this.#own[this.#at + index] = value;
      },
    });
  }

  /** Adds to a counter of this thread. */
  add(index: number, by = 1): void {
    const at = this.#at + index;
    this.#own[at] = (this.#own[at] as number) + by;
  }

  /** The count of all threads, or of some rows. */
  sumAt(index: number, rows = this.#counts.rows): number {
    let sum = 0;
    for (const row of rows) sum += row[this.#at + index] as number;
    return sum;
  }

  /** The sum of the first counters, as many as that. */
  sumOfFirst(count: number, rows = this.#counts.rows): number {
    let sum = 0;
    for (const row of rows) for (let i = 0; i < count; i++) sum += row[this.#at + i] as number;
    return sum;
  }

  /** What all threads have counted since this was last asked, in any thread. Only one thread asks at a time (SharedCounts.locked). */
  takeNew(index: number): number {
    const { common } = this.#counts;
    const sum = this.sumAt(index);
    const isNew = sum - (common[this.#at + index] as number);
    common[this.#at + index] = sum;
    return isNew;
  }

  /** Its place among these rows; undefined if it counts elsewhere. */
  placeIn(counts: CountRows): number | undefined {
    return this.#counts === counts ? this.#at : undefined;
  }

  /** Counts on at another place. */
  moveTo({ counts, at }: CountPlace): void {
    this.#own = counts.own;
    this.#counts = counts;
    this.#at = at;
  }
}

/** Named counters. Properties are this thread's and may be written; `sum` reads all threads. */
type NamedCounts<Name extends string> = Counts &
  Record<Name, number> & {
    sum(name: Name, rows?: CountRows["rows"]): number;
    sums(): [name: Name, sum: number][];
    /** The sum of all counters of all threads, or of some rows. */
    sumOfAll(rows?: CountRows["rows"]): number;
    /** Counts on for itself: the place is given up. */
    leavePlace(): void;
  };

/** A class of counters with these names, in their order. Without a place one counts for itself. */
export function namedCounts<const Name extends string>(
  names: readonly Name[],
): new (
  place?: CountPlace,
) => NamedCounts<Name> {
  const indices = new Map(names.map((name, index) => [name, index]));
  class Named extends Counts {
    constructor(place = placeAlone(names.length)) {
      super(place);
    }

    sum(name: Name, rows?: CountRows["rows"]): number {
      return this.sumAt(indices.get(name) as number, rows);
    }

    sums(): [name: Name, sum: number][] {
      return names.map((name, index) => [name, this.sumAt(index)]);
    }

    sumOfAll(rows?: CountRows["rows"]): number {
      return this.sumOfFirst(names.length, rows);
    }

    leavePlace(): void {
      this.moveTo(placeAlone(names.length));
    }
  }
  for (const [index, name] of names.entries()) Counts.addProperty(Named.prototype, name, index);
  return Named as unknown as new (
    place?: CountPlace,
  ) => NamedCounts<Name>;
}
