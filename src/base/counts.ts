// Groups of counters by name: plain numbers that metrics read.

/** One counter for each name, at 0. */
export function countsOf<const Name extends string>(names: readonly Name[]): Record<Name, number> {
  return Object.fromEntries(names.map((name) => [name, 0])) as Record<Name, number>;
}

/** What all of them have counted. */
export function sumOf(counts: readonly number[] | Readonly<Record<string, number>>): number {
  return Object.values(counts).reduce((sum, count) => sum + count, 0);
}
