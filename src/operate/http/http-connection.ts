// A connection of an HTTP server. It is read in short slices, each in its turn, and a request is answered before the
// next one is read: node:http would parse and start all requests of a read at once, thousands where a client pipelines
// them.

import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { SystemClock } from "../../base/clock.ts";
import { Turns } from "../../base/turns.ts";
import { MICROS_PER_SECOND } from "../../base/units.ts";
import type { HeldSockets } from "./held-sockets.ts";

/** Bytes that are parsed at once; full of the shortest requests they take a millisecond. */
const SLICE_BYTES = 2_048;
/** Of all connections of the process: reading, and answers that are not long (`Page.isLong`). */
const READS = new Turns({ turnUs: 1_000 });
const ENDED_US_MAX = MICROS_PER_SECOND;
/** What a request that waits takes besides its bytes. */
const REQUEST_BYTES = 4_096;

const clock = new SystemClock();

/** A request that was read, and its answer. */
export interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
}

export class HttpConnection {
  readonly #socket: Socket;
  readonly #held: HeldSockets;
  readonly #serve: (exchange: Exchange, connection: HttpConnection) => void;
  /** Requests of the last slice that are not answered yet. */
  readonly #exchanges: Exchange[] = [];
  /** Whether the first of them is being answered. */
  #isAnswering = false;
  /** Bytes read since the last answer. */
  #readBytes = 0;
  #isInLine = false;
  /** When the peer ended its side. */
  #endedUs: number | undefined;

  /** `serve` answers a request; it must not throw. */
  constructor(socket: Socket, held: HeldSockets, serve: (exchange: Exchange, connection: HttpConnection) => void) {
    this.#socket = socket;
    this.#held = held;
    this.#serve = serve;
    held.add(socket);
    // With a listener for `readable`, node:http is given only what `read` takes.
    socket.on("readable", () => this.#look());
    socket.once("end", () => {
      this.#endedUs = clock.nowUs();
    });
    // The reader of a body has room again.
    socket.on("resume", () => this.#look());
  }

  /** Takes a request that has been read. */
  take(exchange: Exchange): void {
    this.#exchanges.push(exchange);
    if (!this.#isAnswering) this.#answer(exchange);
  }

  /** Whether nobody waits for an answer any more. Few peers end their side and wait; none of these waits for long. */
  isGone(): boolean {
    return this.#socket.destroyed || (this.#endedUs !== undefined && clock.nowUs() - this.#endedUs > ENDED_US_MAX);
  }

  /** Notes that an answer holds memory until it is sent. */
  holdAnswer(bytes: number): void {
    if (!this.#socket.destroyed) this.#held.answers.note(this.#socket, bytes);
  }

  #answer(exchange: Exchange): void {
    this.#isAnswering = true;
    this.#held.note(this.#socket, true);
    exchange.response.once("close", () => this.#end());
    this.#serve(exchange, this);
  }

  #end(): void {
    this.#isAnswering = false;
    this.#exchanges.shift();
    this.#readBytes = 0;
    this.#held.note(this.#socket, false);
    this.#held.answers.note(this.#socket, 0);
    this.#look();
  }

  /** Queues for a turn if there is something to do. */
  #look(): void {
    const socket = this.#socket;
    if (socket.destroyed) return;
    this.#held.requests.note(socket, this.#heldBytes());
    // Only a stream that is read to its end notices it.
    if (socket.readableLength === 0) socket.read();
    if (this.#isInLine || !socket.writable || !(this.#isNextDue() || this.#canRead())) return;
    this.#isInLine = true;
    void READS.run(() => this.#advance());
  }

  /** Begins the next request, or reads on. */
  #advance(): void {
    this.#isInLine = false;
    const socket = this.#socket;
    if (socket.destroyed) return;
    const [next] = this.#exchanges;
    if (next !== undefined && this.#isNextDue()) this.#answer(next);
    else if (this.#canRead()) {
      const bytes = Math.min(SLICE_BYTES, socket.readableLength);
      this.#readBytes += bytes;
      socket.read(bytes);
    }
    this.#look();
  }

  /** What is held of requests that are incomplete or wait for their turn. */
  #heldBytes(): number {
    const [first, ...waiting] = this.#exchanges;
    const read = first?.request.complete === true ? 0 : this.#readBytes;
    return read + waiting.length * REQUEST_BYTES + this.#socket.readableLength;
  }

  #isNextDue(): boolean {
    return !this.#isAnswering && this.#exchanges.length > 0;
  }

  /**
   * Whether there are bytes of the request that is due, and room for them: its reader may be slower than its sender.
   */
  #canRead(): boolean {
    if (this.#socket.readableLength === 0) return false;
    const [{ request } = {}, ...more] = this.#exchanges;
    return request === undefined || (more.length === 0 && !request.complete && request.readableLength === 0);
  }
}
