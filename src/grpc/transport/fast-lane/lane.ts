// What all connections of a fast lane share: options, counters, pools, the time of the turn, and the connections that have to flush.

import type { Clock } from "../../../engine/base/clock.ts";
import type { CallContext } from "../unary-call.ts";
import { type Shedder, shedStreams } from "../waiting-streams.ts";
import type { Bounds, LaneCounts, Trouble } from "./bounds.ts";
import { Deadlines } from "./deadlines.ts";
import { huffmanTextMax } from "./hpack/huffman.ts";
import { ChunkPool } from "./output.ts";
import type { KnownMethods } from "./request-head.ts";
import type { StreamTable } from "./stream-table.ts";
import { StreamTurns } from "./stream-turns.ts";
import { type CallLane, type CallOwner, UnaryStream } from "./unary-stream.ts";
import { Unpacking } from "./unpacking.ts";

/** What a lane reads of its server's options. */
interface LaneOptions {
  readonly maxConcurrentStreams: number;
  readonly maxMessageBytes: number;
  readonly maxConnectionAgeMs: number;
  readonly maxConnectionAgeGraceMs: number;
  readonly keepaliveMs: number;
  /** Text for somebody who does not speak HTTP/2 here. */
  readonly httpHint: string;
}

interface LaneParts {
  readonly options: LaneOptions;
  readonly bounds: Bounds;
  readonly counts: LaneCounts;
  readonly clock: Clock;
  readonly context: CallContext;
  readonly known: KnownMethods;
}

/** A connection, as the lane sees it, and as those see it who visit all connections. */
export interface LaneConnection extends Shedder {
  readonly streams: StreamTable;
  /** True when nothing more is read or sent, except for what was written before. */
  readonly isClosed: boolean;
  /** Bytes of output that the peer has not read. */
  readonly unreadBytes: number;
  /** Hands this turn's output to the socket. */
  flush(): void;
  /** Answers the calls whose deadline has passed; returns the next deadline, or Infinity. */
  expireCalls(nowUs: number): number;
  /** Checks whether anything is overdue, `seconds` after the last check. */
  look(nowUs: number, seconds: number): void;
  /** Asks the peer to go; ends the connection after its last stream, or after `graceMs` milliseconds. */
  drain(graceMs: number): void;
  /** Ends the connection because of a bound, and counts it. */
  cut(trouble: Trouble): void;
}

/** Streams that must rest in the pool before one is used again, so that a handler's second reply is noticed, and not sent. */
const RESTING_STREAMS = 256;
const POOLED_STREAMS_MAX = 4_096;

export class Lane implements CallLane {
  readonly options: LaneOptions;
  readonly bounds: Bounds;
  readonly counts: LaneCounts;
  readonly context: CallContext;
  readonly known: KnownMethods;
  readonly connections = new Set<LaneConnection>();
  readonly chunks = new ChunkPool();
  readonly deadlines: Deadlines;
  readonly unpacking: Unpacking;
  readonly turns = new StreamTurns();
  /** Buffer for decoding header text; free between any two calls. */
  readonly headerScratch: Buffer;
  /** Open streams of all connections. */
  streams = 0;
  partialBytes = 0;
  /** Bytes of output of all connections that peers have not read. */
  unreadBytes = 0;
  readonly #clock: Clock;
  #turnNowUs = 0;
  #shedAt: number;
  #toFlush: LaneConnection[] = [];
  readonly #flushAll = () => this.#flush();
  // Calls read in this turn. Each has the same index in four lists, so that a call needs no object.
  readonly #readStreams: UnaryStream[] = [];
  readonly #readConnections: CallOwner[] = [];
  readonly #readIds: number[] = [];
  readonly #readMessages: Buffer[] = [];
  readonly #serveAll = () => this.#serve();
  // A ring of resting streams; the oldest is used first.
  readonly #streams: (UnaryStream | undefined)[] = new Array(POOLED_STREAMS_MAX);
  #oldestStream = 0;
  #streamCount = 0;

  constructor(parts: LaneParts) {
    this.options = parts.options;
    this.bounds = parts.bounds;
    this.counts = parts.counts;
    this.context = parts.context;
    this.known = parts.known;
    this.#clock = parts.clock;
    this.#shedAt = parts.bounds.waitingStreamsMax;
    this.headerScratch = Buffer.allocUnsafe(huffmanTextMax(parts.bounds.headerBlockBytesMax));
    this.unpacking = new Unpacking(parts.bounds.unpackedBytesTotalMax);
    this.deadlines = new Deadlines(parts.clock, (nowUs) => this.#expireCalls(nowUs));
  }

  /** Begins a turn: the next `turnNowUs` reads the clock. */
  beginTurn(): void {
    this.#turnNowUs = 0;
  }

  turnNowUs(): number {
    if (this.#turnNowUs === 0) this.#turnNowUs = this.#clock.nowUs();
    return this.#turnNowUs;
  }

  /** The time now, for work that does not belong to a turn of a socket. */
  nowUs(): number {
    return this.#clock.nowUs();
  }

  /** A stream object for a new stream: one that has rested, or else a new one. */
  takeStream(): UnaryStream {
    if (this.#streamCount <= RESTING_STREAMS) return new UnaryStream(this);
    const at = this.#oldestStream;
    this.#oldestStream = (at + 1) & (POOLED_STREAMS_MAX - 1);
    this.#streamCount--;
    return this.#streams[at] as UnaryStream;
  }

  release(stream: UnaryStream): void {
    if (this.#streamCount === POOLED_STREAMS_MAX) return;
    this.#streams[(this.#oldestStream + this.#streamCount++) & (POOLED_STREAMS_MAX - 1)] = stream;
  }

  serveSoon(stream: UnaryStream, connection: CallOwner, message: Buffer): void {
    if (this.#readStreams.length === 0) setImmediate(this.#serveAll);
    this.#readStreams.push(stream);
    this.#readConnections.push(connection);
    this.#readIds.push(stream.id);
    this.#readMessages.push(message);
  }

  /** Has a connection flush after the code that runs now, together with all others that asked. */
  flushSoon(connection: LaneConnection): void {
    if (this.#toFlush.length === 0) process.nextTick(this.#flushAll);
    this.#toFlush.push(connection);
  }

  /** Adds to the sum of unread output. Beyond its bound the connection with the most of it ends. */
  noteUnread(bytes: number): void {
    this.unreadBytes += bytes;
    if (bytes <= 0 || this.unreadBytes <= this.bounds.unreadBytesTotalMax) return;
    let fullest: LaneConnection | undefined;
    for (const connection of this.connections) {
      if (fullest === undefined || connection.unreadBytes > fullest.unreadBytes) fullest = connection;
    }
    fullest?.cut("unread_output_total");
  }

  /** To be called after a stream has opened: connections may lose streams that wait for their peer, and end. */
  shedIfCrowded(): void {
    if (this.streams >= this.#shedAt) this.#shedAt = shedStreams(this, this.bounds.waitingStreamsMax);
  }

  // The lists can't grow here, because only reading adds to them.
  #serve(): void {
    this.beginTurn();
    for (let i = 0; i < this.#readStreams.length; i++) {
      const stream = this.#readStreams[i] as UnaryStream;
      stream.serveNow(
        this.#readConnections[i] as CallOwner,
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
