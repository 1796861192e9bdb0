// What all connections of a fast lane share: options, bounds and counters, the time of the turn, and what is bounded for all of them
// together.

import type { Clock } from "../../../engine/base/clock.ts";
import type { CallContext } from "../unary-call.ts";
import { type Shedder, shedStreams } from "../waiting-streams.ts";
import type { Bounds, ServerCounts, Trouble } from "./bounds.ts";
import { Deadlines } from "./deadlines.ts";
import { huffmanTextMax } from "./hpack/huffman.ts";
import { ChunkPool } from "./output.ts";
import type { KnownMethods } from "./request-head.ts";
import { StreamTurns } from "./stream-turns.ts";

interface ServerParts {
  readonly options: {
    readonly maxConcurrentStreams: number;
    readonly maxMessageBytes: number;
    readonly maxConnectionAgeMs: number;
    readonly maxConnectionAgeGraceMs: number;
    readonly keepaliveMs: number;
    /** Text for somebody who does not speak HTTP/2 here. */
    readonly httpHint: string;
  };
  readonly bounds: Bounds;
  readonly counts: ServerCounts;
  readonly clock: Clock;
  readonly context: CallContext;
  readonly known: KnownMethods;
}

/** A connection, as the bounds for all of them see it. */
interface OpenConnection extends Shedder {
  /** Bytes of output that the peer has not read. */
  readonly unreadBytes: number;
  /** Answers the calls whose deadline has passed; returns the next deadline, or Infinity. */
  expireCalls(nowUs: number): number;
  /** Ends the connection because of a bound, and counts it. */
  cut(trouble: Trouble): void;
}

export class Http2Server {
  readonly options: ServerParts["options"];
  readonly bounds: Bounds;
  readonly counts: ServerCounts;
  readonly context: CallContext;
  readonly known: KnownMethods;
  readonly connections = new Set<OpenConnection>();
  readonly chunks = new ChunkPool();
  readonly deadlines: Deadlines;
  readonly turns = new StreamTurns();
  /** Buffer for decoding header text; free between any two calls. */
  readonly headerScratch: Buffer;
  /** Open streams of all connections. */
  streams = 0;
  /** Bytes that are kept for calls: of requests that are not whole or not handled, and of answers of streams. */
  partialBytes = 0;
  /** Bytes of output of all connections that peers have not read. */
  unreadBytes = 0;
  readonly #clock: Clock;
  #turnNowUs = 0;
  #shedAt: number;

  constructor({ options, bounds, counts, clock, context, known }: ServerParts) {
    this.options = options;
    this.bounds = bounds;
    this.counts = counts;
    this.context = context;
    this.known = known;
    this.#clock = clock;
    this.#shedAt = bounds.waitingStreamsMax;
    this.headerScratch = Buffer.allocUnsafe(huffmanTextMax(bounds.headerBlockBytesMax));
    this.deadlines = new Deadlines(clock, (nowUs) => this.#expireCalls(nowUs));
  }

  /** Begins a turn: the next `turnNowUs` reads the clock. */
  beginTurn(): void {
    this.#turnNowUs = 0;
  }

  /** The time, read at most once a turn. */
  turnNowUs(): number {
    if (this.#turnNowUs === 0) this.#turnNowUs = this.#clock.nowUs();
    return this.#turnNowUs;
  }

  /** The time now, for work that does not belong to a turn of a socket. */
  nowUs(): number {
    return this.#clock.nowUs();
  }

  /** Adds to the sum of unread output. Beyond its bound the connection with the most of it ends. */
  noteUnread(bytes: number): void {
    this.unreadBytes += bytes;
    if (bytes <= 0 || this.unreadBytes <= this.bounds.unreadBytesTotalMax) return;
    let fullest: OpenConnection | undefined;
    for (const connection of this.connections) {
      if (fullest === undefined || connection.unreadBytes > fullest.unreadBytes) fullest = connection;
    }
    fullest?.cut("unread_output_total");
  }

  /** To be called after a stream has opened: connections may lose streams that wait for their peer, and end. */
  shedIfCrowded(): void {
    if (this.streams >= this.#shedAt) this.#shedAt = shedStreams(this, this.bounds.waitingStreamsMax);
  }

  #expireCalls(nowUs: number): number {
    let nextUs = Number.POSITIVE_INFINITY;
    for (const connection of this.connections) nextUs = Math.min(nextUs, connection.expireCalls(nowUs));
    return nextUs;
  }
}
