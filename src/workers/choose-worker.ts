// Which worker gets a connection that has come. Pure.

/** A worker that takes connections. */
interface Taker {
  readonly connections: number;
  /** Averaged over seconds. */
  readonly openStreams: number;
  /** When it got its last one; any count that grows. */
  readonly lastGiven: number;
}

/**
 * The one with the fewest connections; among those the one with the fewest open streams, then the one whose turn it is.
 * Callers hold few connections for long, so counts that differ by one are as good as it gets. `avoided` gets it only if
 * nobody else can: it has just sent a connection away, which now comes back. Undefined if there is no taker.
 */
export function chooseWorker<T extends Taker>(takers: Iterable<T>, avoided?: T): T | undefined {
  let chosen: T | undefined;
  for (const taker of takers) {
    if (chosen === undefined || chosen === avoided || (taker !== avoided && isBefore(taker, chosen))) chosen = taker;
  }
  return chosen;
}

function isBefore(one: Taker, other: Taker): boolean {
  if (one.connections !== other.connections) return one.connections < other.connections;
  if (one.openStreams !== other.openStreams) return one.openStreams < other.openStreams;
  return one.lastGiven < other.lastGiven;
}
