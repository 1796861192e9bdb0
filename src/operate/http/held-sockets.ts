// The connections that an HTTP server holds, up to bounds. Beyond the number of connections a new one replaces the one
// that has been silent longest: probes come on new connections, and idle ones must not keep them out. Requests that are
// not complete, and answers that nobody reads, are bounded in all connections together: beyond that the connections
// where they began first end.

import type { Socket } from "node:net";

export interface HeldBounds {
  readonly connectionsMax: number;
  /** Bytes of requests that are not answered. */
  readonly requestBytesMax: number;
  /** Bytes of answers that are not sent. */
  readonly answerBytesMax: number;
}

export class HeldSockets {
  readonly #max: number;
  // True while a request is answered. Ordered by the last event: the connection opened, or a whole request began or
  // ended. Bytes of an incomplete request don't count as an event: a slow sender may send one byte a second.
  readonly #isAnswered = new Map<Socket, boolean>();
  /** Requests that are not answered. */
  readonly requests: HeldBytes;
  /** Answers that are not sent. */
  readonly answers: HeldBytes;
  /** Connections that were closed to stay within the bounds. */
  readonly closed = { connections: 0, requests: 0, answers: 0 };

  constructor({ connectionsMax, requestBytesMax, answerBytesMax }: HeldBounds) {
    this.#max = connectionsMax;
    this.requests = new HeldBytes(requestBytesMax, (socket) => this.#close(socket, "requests"));
    this.answers = new HeldBytes(answerBytesMax, (socket) => this.#close(socket, "answers"));
  }

  /** Adds a new connection; closes the longest silent one if the bound is reached. */
  add(socket: Socket): void {
    if (this.#isAnswered.size >= this.#max) this.#close(this.#longestSilent(), "connections");
    this.#isAnswered.set(socket, false);
    socket.once("close", () => this.#forget(socket));
  }

  /** Notes that an answer to a request of this connection begins (`isAnswered`) or has been sent. */
  note(socket: Socket, isAnswered: boolean): void {
    if (this.#isAnswered.delete(socket)) this.#isAnswered.set(socket, isAnswered);
  }

  all(): readonly Socket[] {
    return [...this.#isAnswered.keys()];
  }

  #close(socket: Socket | undefined, why: keyof HeldSockets["closed"]): void {
    socket?.destroy();
    // Its close event is on its way; it makes room at once.
    if (socket !== undefined) this.#forget(socket);
    this.closed[why]++;
  }

  #forget(socket: Socket): void {
    this.#isAnswered.delete(socket);
    this.requests.note(socket, 0);
    this.answers.note(socket, 0);
  }

  // A connection that waits for an answer is closed only if all do: then some of them make us wait for the rest of a
  // body.
  #longestSilent(): Socket | undefined {
    for (const [socket, isAnswered] of this.#isAnswered) if (!isAnswered) return socket;
    return this.#isAnswered.keys().next().value;
  }
}

/** Bytes held by connections, up to a bound for all together. */
class HeldBytes {
  readonly #max: number;
  readonly #close: (socket: Socket) => void;
  /** In the order in which they began to hold some. */
  readonly #bytes = new Map<Socket, number>();
  #sum = 0;

  constructor(max: number, close: (socket: Socket) => void) {
    this.#max = max;
    this.#close = close;
  }

  /**
   * Notes how much a connection holds now. Beyond the bound those that have held some longest are closed; this one
   * never is.
   */
  note(socket: Socket, bytes: number): void {
    this.#sum += bytes - (this.#bytes.get(socket) ?? 0);
    if (bytes > 0) this.#bytes.set(socket, bytes);
    else this.#bytes.delete(socket);
    for (const oldest of this.#bytes.keys()) {
      if (this.#sum <= this.#max) return;
      if (oldest !== socket) this.#close(oldest);
    }
  }
}
