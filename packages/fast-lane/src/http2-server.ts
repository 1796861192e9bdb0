// What all connections of a fast lane share: options, bounds and counters, the time of the turn, and what is bounded
// for all of them together.

import { type Bounds, DEFAULT_BOUNDS, ServerCounts } from "./bounds.ts";
import { HeaderMemory, type KnownMethods, RequestHead } from "./header-blocks.ts";
import type { RememberedValues } from "./hpack/decoder.ts";
import { HeaderList } from "./hpack/header-list.ts";
import { huffmanTextMax } from "./hpack/huffman.ts";
import type { StreamMethod, UnaryMethod } from "./methods.ts";
import type { Trouble } from "./protocol.ts";
import { ChunkPool } from "./sender.ts";
import type { ServerOptions, Settings } from "./server-options.ts";
import { longestHolders, type Shedder, shedStreams } from "./shared-bounds.ts";
import { StreamTurns } from "./stream-turns.ts";

/** What connections need of a server's options, complete. */
interface Http2ServerOptions extends Settings, Pick<ServerOptions, "methods" | "bounds"> {}

/** A connection, as the bounds for all of them see it. */
interface OpenConnection extends Shedder {
  /** Bytes of output that the peer has not read, and since when it could have read the first of them. */
  readonly unreadBytes: number;
  readonly unreadSinceUs: number;
  /** Bytes that are kept of its requests, and since when there have been any. */
  readonly partialBytes: number;
  readonly partialSinceUs: number;
  /** Bytes of its peer's header fields, and when it was read last. */
  readonly tableBytes: number;
  readonly readUs: number;
  /** Ends the connection because of a bound, and counts it; after `dismiss` clients connect again. */
  cut(trouble: Trouble): void;
  dismiss(trouble: Trouble): void;
}

/** What is left of a total once connections have ended for it: so a look at all connections is paid for by the rest. */
const LEFT_SHARE = 0.75;
const heldUnread = (each: OpenConnection) => each.unreadBytes;
const unreadSince = (each: OpenConnection) => each.unreadSinceUs;
const heldPartial = (each: OpenConnection) => each.partialBytes;
const partialSince = (each: OpenConnection) => each.partialSinceUs;
const heldTable = (each: OpenConnection) => each.tableBytes;
const lastRead = (each: OpenConnection) => each.readUs;

export class Http2Server {
  readonly options: Http2ServerOptions;
  readonly bounds: Bounds;
  readonly counts: ServerCounts;
  readonly known: KnownMethods;
  readonly connections = new Set<OpenConnection>();
  readonly chunks = new ChunkPool();
  readonly turns = new StreamTurns();
  /**
   * The fields that are decoded now, of any connection, their text, and what they say. `head` is replaced when it is
   * remembered.
   */
  readonly headerList = new HeaderList();
  readonly headerScratch: Buffer;
  head = new RequestHead();
  /** What was decoded before, of any connection. */
  readonly headerMemory = new HeaderMemory();
  readonly headerValues: RememberedValues = [];
  /** Unary calls that their handler has not answered yet. Cancelled ones count, because they still take work. */
  inFlight = 0;
  /** Open streams of all connections. */
  streams = 0;
  /** Bytes of input that is not whole or not handled (frames, header blocks, messages), and of answers of streams. */
  partialBytes = 0;
  /** Bytes of the header fields that peers refer to. */
  tableBytes = 0;
  /** Bytes of output of all connections that peers have not read. */
  unreadBytes = 0;
  #turnNowUs = 0;
  #shedAt: number;

  constructor(options: Http2ServerOptions) {
    this.options = options;
    this.counts = new ServerCounts();
    this.bounds = { ...DEFAULT_BOUNDS, ...options.bounds };
    const unary = options.methods.filter((method): method is UnaryMethod => "handler" in method);
    const others = options.methods.filter((method): method is StreamMethod => !("handler" in method));
    this.known = {
      methods: new Map(unary.map((method) => [method.path, method])),
      others: new Map(others.map((method) => [method.path, method])),
    };
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

  /**
   * Adds to the sum of unread output. Beyond its bound connections end, those first that have left theirs unread
   * longest.
   */
  noteUnread(bytes: number): void {
    const { unreadBytesTotalMax: max } = this.bounds;
    this.unreadBytes += bytes;
    if (bytes <= 0 || this.unreadBytes <= max) return;
    for (const each of longestHolders(this.connections, max, heldUnread, unreadSince)) {
      if (this.unreadBytes <= max * LEFT_SHARE) break;
      each.cut("unread_output_total");
    }
  }

  /**
   * Adds to the bytes that are kept of requests. Beyond their bound other connections end, those first whose requests
   * have been unfinished longest: honest ones need milliseconds. False if `connection` itself holds what is too much.
   */
  notePartial(connection: OpenConnection, bytes: number): boolean {
    const { partialBytesTotalMax: max } = this.bounds;
    this.partialBytes += bytes;
    if (bytes <= 0 || this.partialBytes <= max) return true;
    for (const each of longestHolders(this.connections, max, heldPartial, partialSince)) {
      if (this.partialBytes <= max * LEFT_SHARE) break;
      if (each !== connection) each.cut("partial_requests");
    }
    return this.partialBytes <= max;
  }

  /**
   * Adds to the bytes of header tables. Beyond their bound other connections end, those first that have been silent
   * longest.
   */
  noteTable(connection: OpenConnection, bytes: number): void {
    const { headerTablesBytesMax: max } = this.bounds;
    this.tableBytes += bytes;
    if (bytes <= 0 || this.tableBytes <= max) return;
    for (const each of longestHolders(this.connections, max, heldTable, lastRead)) {
      if (this.tableBytes <= max * LEFT_SHARE) break;
      if (each !== connection) each.dismiss("header_tables");
    }
  }

  /** Call this after a stream has opened: connections may lose streams that wait for their peer, and end. */
  shedIfCrowded(): void {
    if (this.streams >= this.#shedAt) this.#shedAt = shedStreams(this, this.bounds.waitingStreamsMax);
  }
}
