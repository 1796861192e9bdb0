// How busy connections are, for processes that share a port: open streams per connection, averaged, and which connection
// to send away so that loads come closer. Samples are taken by whoever owns the timer.

/** What a transport tells of its connections. */
export interface ConnectionLoads {
  /** Looks at what is open now. To be called at even intervals, SAMPLE_MS apart. */
  sample(): void;
  /** Calls open at once over all connections, averaged over the last seconds. */
  openStreams(): number;
  /**
   * Asks one connection to go, with a GOAWAY, such that its streams fit into `surplus`: what this process has
   * open beyond the one that is to get it. Returns the streams that go with it; undefined if no connection fits.
   */
  moveAway(surplus: number): number | undefined;
}

/** Time between two samples. */
export const SAMPLE_MS = 50;
/** Time after which an old sample weighs a third. */
const MEMORY_MS = 2_500;
const WEIGHT = 1 - Math.exp(-SAMPLE_MS / MEMORY_MS);
/** Less than this is not worth a new connection. */
const MOVED_STREAMS_MIN = 0.5;

/** A moving average that begins at nothing. */
export class MovingAverage {
  value = 0;

  add(sample: number): void {
    this.value += (sample - this.value) * WEIGHT;
  }
}

/**
 * Which of the connections with these loads to move to a process that has `surplus` streams less: the one nearest to half
 * of it, for then both end up alike. A load of the surplus or more would only swap the two. Undefined if none helps.
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
