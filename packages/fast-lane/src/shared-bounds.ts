// Which connections pay when a bound for all of them together is reached. No stream that waits for its peer (for the
// rest of a request, or for somebody to read the answer) is refused: connections with more than their share lose
// theirs, so a peer with one such stream never does. Connections that hold more than their share of bytes end, those
// first that have held them longest.

/** A connection, as this bound sees it. */
export interface Shedder {
  /** Ends its oldest streams that wait for the peer, until `share` of them are left. */
  shed(share: number): void;
}

/** All streams of a server. */
interface OpenStreams {
  /** How many streams are open. */
  readonly streams: number;
  readonly connections: ReadonlySet<Shedder>;
}

/**
 * To be called when `open` has reached the number that this returned last, at first `max`. Leaves at most half of `max`
 * waiting, if `max` is at least twice the number of connections. Streams whose handler works are not ended; they raise
 * the number at which to look again, so that each look is paid for by half of `max` new streams.
 */
export function shedStreams(open: OpenStreams, max: number): number {
  const share = Math.max(1, Math.floor(max / 2 / open.connections.size));
  for (const connection of open.connections) connection.shed(share);
  return Math.max(max, open.streams + Math.floor(max / 2));
}

/**
 * The connections that hold more than their share of half of `max`, in the order of `sinceUs`. If they end, half of
 * `max` is left at most.
 */
export function longestHolders<T>(
  connections: ReadonlySet<T>,
  max: number,
  held: (connection: T) => number,
  sinceUs: (connection: T) => number,
): T[] {
  const share = max / 2 / connections.size;
  return [...connections].filter((each) => held(each) > share).sort((a, b) => sinceUs(a) - sinceUs(b));
}
