// What all connections of a fast lane share: options, counters, pools, the time of the turn, and who still has to flush.

import type { Duplex } from "node:stream";
import type { Clock } from "../../core/clock.ts";
import type { CallContext } from "../unary-call.ts";
import type { Bounds, LaneCounts, Trouble } from "./bounds.ts";
import { Deadlines } from "./deadlines.ts";
import { FairHandOver } from "./fair-hand-over.ts";
import { huffmanTextMax } from "./hpack/huffman.ts";
import { ChunkPool } from "./output.ts";
import type { KnownMethods } from "./request-head.ts";
import type { StreamTable } from "./stream-table.ts";
import { type CallLane, type CallOwner, UnaryStream } from "./unary-stream.ts";
import { Unpacking } from "./unpacking.ts";

/** What a lane needs of its server's options. */
interface LaneOptions {
  readonly maxConcurrentStreams: number;
  readonly maxMessageBytes: number;
  readonly maxConnectionAgeMs: number;
  readonly maxConnectionAgeGraceMs: number;
  readonly keepaliveMs: number;
  /** What somebody is told who speaks something else than HTTP/2 here. */
  readonly httpHint: string;
}

interface LaneParts {
  readonly options: LaneOptions;
  readonly bounds: Bounds;
  readonly counts: LaneCounts;
  readonly clock: Clock;
  readonly context: CallContext;
  readonly known: KnownMethods;
  /** Gives grpc-js the other end of a connection inside the process. */
  readonly inject: (end: Duplex) => void;
}

/** A connection, as the lane sees it, and whoever looks at all of them. */
export interface LaneConnection {
  readonly streams: StreamTable;
  /** Nothing is read or sent any more, but for what was written before. */
  readonly isClosed: boolean;
  /** Bytes of output that the peer has not read. */
  readonly unreadBytes: number;
  /** Hands the output of this turn to the socket. */
  flush(): void;
  /** Answers the calls whose deadline has come; returns when the next one does, or Infinity. */
  expireCalls(nowUs: number): number;
  /** Looks whether anything is overdue, `seconds` after the last look. */
  look(nowUs: number, seconds: number): void;
  /** Asks the peer to go, and ends the connection when its last stream has ended, or after the grace. */
  drain(graceMs: number): void;
  /** Ends the connection for a bound that it passed. */
  cut(trouble: Trouble): void;
}

/** Streams that rest in the pool before one serves again, so that a handler that replies twice is caught, not obeyed. */
const RESTING_STREAMS = 256;
const POOLED_STREAMS_MAX = 4_096;

export class Lane implements CallLane {
  readonly options: LaneOptions;
  readonly bounds: Bounds;
  readonly counts: LaneCounts;
  readonly context: CallContext;
  readonly known: KnownMethods;
  readonly inject: (end: Duplex) => void;
  readonly connections = new Set<LaneConnection>();
  readonly chunks = new ChunkPool();
  readonly deadlines: Deadlines;
  readonly unpacking: Unpacking;
  readonly fairHandOver: FairHandOver;
  /** Where header text is decoded; free between any two calls. */
  readonly headerScratch: Buffer;
  /** Streams that are open on all connections. */
  streams = 0;
  partialBytes = 0;
  /** Output of all connections that peers have not read. */
  unreadBytes = 0;
  readonly #clock: Clock;
  #turnNowUs = 0;
  #toFlush: LaneConnection[] = [];
  readonly #flushAll = () => this.#flush();
  // Calls read in this turn, each in the same place of four lists: no object per call.
  readonly #readStreams: UnaryStream[] = [];
  readonly #readConnections: CallOwner[] = [];
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
    this.fairHandOver = new FairHandOver(parts.bounds.handedStreamsTotalMax);
    this.unpacking = new Unpacking(parts.bounds.unpackedBytesTotalMax);
    this.deadlines = new Deadlines(parts.clock, (nowUs) => this.#expireCalls(nowUs));
  }

  /** Begins a turn: the next question for the time reads the clock. */
  beginTurn(): void {
    this.#turnNowUs = 0;
  }

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

  /** Has a connection flush when the code that runs now is through, together with all others that asked. */
  flushSoon(connection: LaneConnection): void {
    if (this.#toFlush.length === 0) process.nextTick(this.#flushAll);
    this.#toFlush.push(connection);
  }

  /** Moves the sum of unread output; past its bound the connection with the most of it ends. */
  noteUnread(bytes: number): void {
    this.unreadBytes += bytes;
    if (bytes <= 0 || this.unreadBytes <= this.bounds.unreadBytesTotalMax) return;
    let fullest: LaneConnection | undefined;
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
