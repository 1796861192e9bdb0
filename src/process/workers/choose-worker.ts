// Chooses the worker that gets a new connection. Pure.

/** A worker that takes connections. */
interface Taker {
  /** Mean over the last seconds. */
  readonly openStreams: number;
  /** Order of the workers' last new connections: any count that grows. */
  readonly lastGiven: number;
}

/**
 * Chooses the worker with the fewest connections; among those the one with the fewest open streams; then the one that has waited
 * longest. Callers keep few connections for long, so a difference of one connection can't be avoided. Undefined if there is no taker.
 */
export function chooseWorker<T extends Taker>(takers: Iterable<T>, connectionsOf: (taker: T) => number): T | undefined {
  const isBefore = (one: T, other: T) =>
    (connectionsOf(one) - connectionsOf(other) ||
      one.openStreams - other.openStreams ||
      one.lastGiven - other.lastGiven) < 0;
  let chosen: T | undefined;
  for (const taker of takers) if (chosen === undefined || isBefore(taker, chosen)) chosen = taker;
  return chosen;
}
