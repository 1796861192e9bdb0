// What all connections of a fast lane share: options, bounds and counters, the time of the turn, and what is bounded for all of them
// together.

import { fullestOf, type Shedder, shedStreams } from "../shared-bounds.ts";
import type { GrpcServerOptions, MessageMethod } from "../transport.ts";
import { type Bounds, DEFAULT_BOUNDS, ServerCounts } from "./bounds.ts";
import type { KnownMethods } from "./header-blocks.ts";
import { huffmanTextMax } from "./hpack/huffman.ts";
import type { Trouble } from "./protocol.ts";
import { ChunkPool } from "./sender.ts";
import { StreamTurns } from "./stream-turns.ts";

/** What connections need of a server's options. */
export interface Http2ServerOptions extends Omit<GrpcServerOptions, "host" | "port" | "health" | "reflection" | "tls"> {
  /** The HTTP port of this process, for answers to people who ask here by mistake. */
  readonly httpPort?: number | undefined;
  /** Bounds that differ from the defaults; for tests. */
  readonly bounds?: Partial<Bounds> | undefined;
}

/** A connection, as the bounds for all of them see it. */
interface OpenConnection extends Shedder {
  /** Bytes of output that the peer has not read. */
  readonly unreadBytes: number;
  /** Bytes that are kept for its calls. */
  readonly partialBytes: number;
  /** Ends the connection because of a bound, and counts it. */
  cut(trouble: Trouble): void;
}

export class Http2Server {
  readonly options: Http2ServerOptions;
  readonly bounds: Bounds;
  readonly counts: ServerCounts;
  readonly known: KnownMethods;
  /** For people who ask here over HTTP. */
  readonly httpHint: string;
  readonly connections = new Set<OpenConnection>();
  readonly chunks = new ChunkPool();
  readonly turns = new StreamTurns();
  /** Buffer for decoding header text; free between any two calls. */
  readonly headerScratch: Buffer;
  /** Calls on bytes that their handler has not answered yet. Cancelled ones count, because they still take work. */
  inFlight = 0;
  /** Open streams of all connections. */
  streams = 0;
  /** Bytes that are kept for calls: of requests that are not whole or not handled, and of answers of streams. */
  partialBytes = 0;
  /** Bytes of output of all connections that peers have not read. */
  unreadBytes = 0;
  #turnNowUs = 0;
  #shedAt: number;

  /** `others`: the methods that don't work on bytes. */
  constructor(options: Http2ServerOptions, others: readonly MessageMethod[]) {
    this.options = options;
    this.counts = new ServerCounts();
    this.bounds = { ...DEFAULT_BOUNDS, ...options.bounds };
    this.known = {
      methods: new Map(options.methods.map((method) => [method.path, method])),
      others: new Map(others.map((method) => [method.definition.path, method])),
    };
    this.httpHint =
      options.httpPort === undefined ? "HTTP is served elsewhere." : `HTTP is on port ${options.httpPort}.`;
    this.#shedAt = this.bounds.waitingStreamsMax;
    this.headerScratch = Buffer.allocUnsafe(huffmanTextMax(this.bounds.headerBlockBytesMax));
  }

  /** Begins a turn: the next `turnNowUs` reads the clock. */
  beginTurn(): void {
    this.#turnNowUs = 0;
  }

  /** The time, read at most once a turn. */
  turnNowUs(): number {
    if (this.#turnNowUs === 0) this.#turnNowUs = this.options.clock.nowUs();
    return this.#turnNowUs;
  }

  /** The time now, for work that does not belong to a turn of a socket. */
  nowUs(): number {
    return this.options.clock.nowUs();
  }

  /** Adds to the sum of unread output. Beyond its bound the connection with the most of it ends. */
  noteUnread(bytes: number): void {
    this.unreadBytes += bytes;
    if (bytes <= 0 || this.unreadBytes <= this.bounds.unreadBytesTotalMax) return;
    fullestOf(this.connections, (each) => each.unreadBytes)?.cut("unread_output_total");
  }

  /**
   * Adds to the bytes that are kept for calls. False if they are beyond their bound and `connection` has most of them. If another connection
   * has most, that one ends: the peer that fills the bound must not get the calls of others refused.
   */
  notePartial(connection: OpenConnection | undefined, bytes: number): boolean {
    this.partialBytes += bytes;
    if (bytes <= 0 || this.partialBytes <= this.bounds.partialBytesTotalMax) return true;
    const fullest = fullestOf(this.connections, (each) => each.partialBytes);
    if (fullest === connection) return false;
    fullest?.cut("partial_requests");
    return true;
  }

  /** Call this after a stream has opened: connections may lose streams that wait for their peer, and end. */
  shedIfCrowded(): void {
    if (this.streams >= this.#shedAt) this.#shedAt = shedStreams(this, this.bounds.waitingStreamsMax);
  }
}
