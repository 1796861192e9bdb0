// The load of a fast lane's connections: the open unary calls of each, and the GOAWAY for one of them. Calls of health and
// reflection don't count: a Watch of health stays open for days and costs nothing.

import { type ConnectionLoads, chooseConnection, MovingAverage } from "../connection-loads.ts";
import type { Lane, LaneConnection } from "./lane.ts";
import { UnaryStream } from "./unary-stream.ts";

export class LaneLoads implements ConnectionLoads {
  readonly #lane: Lane;
  #averages = new Map<LaneConnection, MovingAverage>();
  readonly #leaving = new WeakSet<LaneConnection>();

  constructor(lane: Lane) {
    this.#lane = lane;
  }

  sample(): void {
    const averages = new Map<LaneConnection, MovingAverage>();
    for (const connection of this.#lane.connections) {
      const average = this.#averages.get(connection) ?? new MovingAverage();
      average.add(unaryStreamsOf(connection));
      averages.set(connection, average);
    }
    this.#averages = averages;
  }

  openStreams(): number {
    let sum = 0;
    for (const { value } of this.#averages.values()) sum += value;
    return sum;
  }

  moveAway(surplus: number): number | undefined {
    const staying = [...this.#averages].filter(
      ([connection]) => !connection.isClosed && !this.#leaving.has(connection),
    );
    // The only connection would take the whole load along.
    if (staying.length < 2) return undefined;
    const chosen = chooseConnection(
      staying.map(([, average]) => average.value),
      surplus,
    );
    const [connection, average] = (chosen === undefined ? undefined : staying[chosen]) ?? [];
    if (connection === undefined || average === undefined) return undefined;
    this.#leaving.add(connection);
    connection.drain(this.#lane.options.maxConnectionAgeGraceMs);
    return average.value;
  }
}

function unaryStreamsOf(connection: LaneConnection): number {
  if (connection.streams.size === 0) return 0;
  return connection.streams.all().filter((stream) => stream instanceof UnaryStream).length;
}
