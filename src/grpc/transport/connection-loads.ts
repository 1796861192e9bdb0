// The load of connections, for processes that share a port: the mean number of open streams per connection, and the choice of a
// connection to send away so that loads become more even. The owner of a timer takes the samples.

/** What a transport tells about its connections. */
export interface ConnectionLoads {
  /** Takes a sample; to be called every SAMPLE_MS. */
  sample(): void;
  /** Open calls of all connections, as a mean over the last seconds. */
  openStreams(): number;
  /**
   * Asks one connection to go, by a GOAWAY. `surplus` is how many open streams this process has beyond the one that will get the
   * connection; the streams of the connection must fit into it. Returns the connection's streams; undefined if none is suitable.
   */
  moveAway(surplus: number): number | undefined;
}

/** Time between two samples. */
export const SAMPLE_MS = 50;
/** Time after which the weight of a sample has fallen to 1/e. */
const MEMORY_MS = 2_500;
const WEIGHT = 1 - Math.exp(-SAMPLE_MS / MEMORY_MS);
/** A connection with less load is not worth the cost of a new connection. */
const MOVED_STREAMS_MIN = 0.5;

/** An exponential moving average that begins at 0. */
export class MovingAverage {
  value = 0;

  add(sample: number): void {
    this.value += (sample - this.value) * WEIGHT;
  }
}

/**
 * The index of the connection to move to a process with `surplus` streams less: the one whose load is nearest to half of the surplus,
 * because then both processes end up equal. A load of the whole surplus or more would only swap them. Undefined if none helps.
 */
export function chooseConnection(loads: readonly number[], surplus: number): number | undefined {
  let chosen: number | undefined;
  let distance = Number.POSITIVE_INFINITY;
  for (const [i, load] of loads.entries()) {
    if (load < MOVED_STREAMS_MIN || load >= surplus) continue;
    const off = Math.abs(load - surplus / 2);
    if (off >= distance) continue;
    chosen = i;
    distance = off;
  }
  return chosen;
}
