// What all connections of a fast lane share: options, counters, pools, the time of the turn, and who still has to flush.

import type { Duplex } from "node:stream";
import type { Clock } from "../../core/clock.ts";
import type { CallContext } from "../unary-call.ts";
import type { Bounds, LaneCounts } from "./bounds.ts";
import type { Connection } from "./connection.ts";
import { Deadlines } from "./deadlines.ts";
import { huffmanTextMax } from "./huffman.ts";
import { ChunkPool } from "./output.ts";
import type { KnownMethods } from "./request-head.ts";
import { UnaryStream } from "./unary-stream.ts";

/** What a lane needs of its server's options. */
export interface LaneOptions {
  readonly maxConcurrentStreams: number;
  readonly maxMessageBytes: number;
  readonly maxConnectionAgeMs: number;
  readonly maxConnectionAgeGraceMs: number;
  readonly keepaliveMs: number;
  /** What somebody is told who speaks something else than HTTP/2 here. */
  readonly httpHint: string;
}

export interface LaneParts {
  readonly options: LaneOptions;
  readonly bounds: Bounds;
  readonly counts: LaneCounts;
  readonly clock: Clock;
  readonly context: CallContext;
  readonly known: KnownMethods;
  /** Gives grpc-js the other end of a connection inside the process. */
  readonly inject: (end: Duplex) => void;
}

/** Streams that rest in the pool before one serves again, so that a handler that replies twice is caught, not obeyed. */
const RESTING_STREAMS = 256;
const POOLED_STREAMS_MAX = 4_096;

export class Lane {
  readonly options: LaneOptions;
  readonly bounds: Bounds;
  readonly counts: LaneCounts;
  readonly context: CallContext;
  readonly known: KnownMethods;
  readonly inject: (end: Duplex) => void;
  readonly connections = new Set<Connection>();
  readonly chunks = new ChunkPool();
  readonly deadlines: Deadlines;
  /** Where header text is decoded; free between any two calls. */
  readonly headerScratch: Buffer;
  /** Streams that are open on all connections. */
  streams = 0;
  /** Bytes held of unary requests that have not come whole, over all connections. */
  partialBytes = 0;
  /** Output of all connections that peers have not read. */
  unreadBytes = 0;
  readonly #clock: Clock;
  #turnNowUs = 0;
  #toFlush: Connection[] = [];
  readonly #flushAll = () => this.#flush();
  // Calls read in this turn, each in the same place of four lists: no object per call.
  readonly #readStreams: UnaryStream[] = [];
  readonly #readConnections: Connection[] = [];
  readonly #readIds: number[] = [];
  readonly #readMessages: Buffer[] = [];
  readonly #serveAll = () => this.#serve();
  // A ring of streams at rest, oldest first out.
  readonly #streams: (UnaryStream | undefined)[] = new Array(POOLED_STREAMS_MAX);
  #oldestStream = 0;
  #streamCount = 0;

  constructor(parts: LaneParts) {
    this.options = parts.options;
    this.bounds = parts.bounds;
    this.counts = parts.counts;
    this.context = parts.context;
    this.known = parts.known;
    this.inject = parts.inject;
    this.#clock = parts.clock;
    this.headerScratch = Buffer.allocUnsafe(huffmanTextMax(parts.bounds.headerBlockBytesMax));
    this.deadlines = new Deadlines(parts.clock, (nowUs) => this.#expireCalls(nowUs));
  }

  /** Begins a turn: the next question for the time reads the clock. */
  beginTurn(): void {
    this.#turnNowUs = 0;
  }

  /** The time, read at most once a turn. */
  turnNowUs(): number {
    if (this.#turnNowUs === 0) this.#turnNowUs = this.#clock.nowUs();
    return this.#turnNowUs;
  }

  /** The time now, for what is not a turn of a socket. */
  nowUs(): number {
    return this.#clock.nowUs();
  }

  /** A stream to open. */
  takeStream(): UnaryStream {
    if (this.#streamCount <= RESTING_STREAMS) return new UnaryStream(this);
    const at = this.#oldestStream;
    this.#oldestStream = (at + 1) & (POOLED_STREAMS_MAX - 1);
    this.#streamCount--;
    return this.#streams[at] as UnaryStream;
  }

  /** Takes back a stream that is closed and replied to. */
  release(stream: UnaryStream): void {
    if (this.#streamCount === POOLED_STREAMS_MAX) return;
    this.#streams[(this.#oldestStream + this.#streamCount++) & (POOLED_STREAMS_MAX - 1)] = stream;
  }

  /** Has a call served at the end of the turn, when all sockets were read. `message` must stay as it is until then. */
  serveSoon(stream: UnaryStream, connection: Connection, message: Buffer): void {
    if (this.#readStreams.length === 0) setImmediate(this.#serveAll);
    this.#readStreams.push(stream);
    this.#readConnections.push(connection);
    this.#readIds.push(stream.id);
    this.#readMessages.push(message);
  }

  /** Has a connection flush when the code that runs now is through, together with all others that asked. */
  flushSoon(connection: Connection): void {
    if (this.#toFlush.length === 0) process.nextTick(this.#flushAll);
    this.#toFlush.push(connection);
  }

  /** Moves the sum of unread output; past its bound the connection with the most of it ends. */
  noteUnread(bytes: number): void {
    this.unreadBytes += bytes;
    if (bytes <= 0 || this.unreadBytes <= this.bounds.unreadBytesTotalMax) return;
    let fullest: Connection | undefined;
    for (const connection of this.connections) {
      if (fullest === undefined || connection.unreadBytes > fullest.unreadBytes) fullest = connection;
    }
    fullest?.cut("unread_output_total");
  }

  // What is served here can't add to the lists: only reading does.
  #serve(): void {
    this.beginTurn();
    for (let i = 0; i < this.#readStreams.length; i++) {
      const stream = this.#readStreams[i] as UnaryStream;
      stream.serveNow(
        this.#readConnections[i] as Connection,
        this.#readIds[i] as number,
        this.#readMessages[i] as Buffer,
      );
    }
    this.#readStreams.length = 0;
    this.#readConnections.length = 0;
    this.#readIds.length = 0;
    this.#readMessages.length = 0;
  }

  #flush(): void {
    const connections = this.#toFlush;
    this.#toFlush = [];
    for (const connection of connections) connection.flush();
  }

  #expireCalls(nowUs: number): number {
    let nextUs = Number.POSITIVE_INFINITY;
    for (const connection of this.connections) nextUs = Math.min(nextUs, connection.expireCalls(nowUs));
    return nextUs;
  }
}
