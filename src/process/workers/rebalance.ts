// Decides when a connection should move from one worker to another. Pure arithmetic: supervisor.ts asks, and the worker sends the
// connection away.

import { MICROS_PER_SECOND } from "../../engine/base/units.ts";

/** A worker that takes connections, by its last report. */
interface Load {
  readonly connections: number;
  /** Mean over the last seconds. */
  readonly openStreams: number;
}

/** A worker that has far more than its share of open streams. */
interface Move<T> {
  readonly from: T;
  /** Its open streams beyond those of the worker with the fewest. */
  readonly surplus: number;
}

/** Over all workers at most one move in this time: a move costs the caller a new connection. */
export const MOVE_INTERVAL_US = 10 * MICROS_PER_SECOND;
/** A worker with fewer open streams than this has time for all of them. */
const OPEN_STREAMS_MIN = 2;
const CROWDED_RATIO = 2;
/** Looks in a row that must agree: a worker that waits for its core looks crowded for a moment. */
const CROWDED_LOOKS = 3;

/**
 * The busiest worker, if it has more than one connection and more than CROWDED_RATIO times the mean of the others' open streams.
 * The mean leaves the busiest out: of two workers none could exceed twice the mean of both. Undefined if no worker is crowded.
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

/** Turns looks into moves: a move must be due at several looks in a row, and moves lie far apart. */
export class Rebalancer<T extends Load> {
  #crowded: T | undefined;
  #looks = 0;
  #nextUs = 0;

  /** Takes all workers that take connections; to be called at even intervals. */
  look(workers: readonly T[], nowUs: number): Move<T> | undefined {
    const move = chooseMove(workers);
    this.#looks = move !== undefined && move.from === this.#crowded ? this.#looks + 1 : 1;
    this.#crowded = move?.from;
    return this.#looks >= CROWDED_LOOKS && nowUs >= this.#nextUs ? move : undefined;
  }

  /** Notes that a worker is asked to send a connection away, whether or not it has one that suits. */
  noteMove(nowUs: number): void {
    this.#nextUs = nowUs + MOVE_INTERVAL_US;
  }
}
