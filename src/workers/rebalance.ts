// When a connection should move from one worker to another: the arithmetic alone. Who asks, and how a connection is asked
// to go, is elsewhere.

import { MICROS_PER_SECOND } from "../core/units.ts";

/** A worker that takes connections, as it reported last. */
interface Load {
  readonly connections: number;
  /** Averaged over seconds. */
  readonly openStreams: number;
}

/** A worker that has far more than its share. */
interface Move<T> {
  readonly from: T;
  /** Streams it has open beyond the worker that has fewest. */
  readonly surplus: number;
}

/** Over all workers, one connection in this time: a move costs its caller a new connection. */
export const MOVE_INTERVAL_US = 10 * MICROS_PER_SECOND;
/** With fewer open streams than this a worker has time for all of them. */
const OPEN_STREAMS_MIN = 2;
const CROWDED_RATIO = 2;
/** A worker that waits for its core looks crowded for a moment. */
const CROWDED_LOOKS = 3;

/**
 * The busiest worker, if it has more than twice the mean of the others open and more than one connection. (Of two workers
 * none can have more than twice the mean of both, which is why it is not counted in.) Undefined if all is well.
 */
export function chooseMove<T extends Load>(workers: readonly T[]): Move<T> | undefined {
  if (workers.length < 2) return undefined;
  const byStreams = [...workers].sort((one, other) => one.openStreams - other.openStreams);
  const from = byStreams.at(-1);
  const least = byStreams[0];
  if (from === undefined || least === undefined) return undefined;
  const others = byStreams.slice(0, -1).reduce((sum, { openStreams }) => sum + openStreams, 0) / (workers.length - 1);
  const isCrowded = from.openStreams >= OPEN_STREAMS_MIN && from.openStreams > CROWDED_RATIO * others;
  if (!isCrowded || from.connections < 2) return undefined;
  return { from, surplus: from.openStreams - least.openStreams };
}

/** Which move to make, look by look: only where it was called for several times in a row, and moves far apart. */
export class Rebalancer<T extends Load> {
  #crowded: T | undefined;
  #looks = 0;
  #nextUs = 0;

  /** To be called at even intervals, with all workers that take connections. */
  look(workers: readonly T[], nowUs: number): Move<T> | undefined {
    const move = chooseMove(workers);
    this.#looks = move !== undefined && move.from === this.#crowded ? this.#looks + 1 : 1;
    this.#crowded = move?.from;
    return this.#looks >= CROWDED_LOOKS && nowUs >= this.#nextUs ? move : undefined;
  }

  /** A connection was asked to go. */
  noteMove(nowUs: number): void {
    this.#nextUs = nowUs + MOVE_INTERVAL_US;
  }
}
