// The connections that an HTTP server holds, up to a bound. Beyond it a new connection replaces the one that has been silent
// longest: probes come on new connections, and idle ones must not keep them out.

import type { Socket } from "node:net";

export class HeldSockets {
  readonly #max: number;
  // True while a request is answered. Ordered by the last event: the connection opened, or a whole request began or
  // ended. Bytes of an incomplete request don't count as an event: a slow sender may send one byte a second.
  readonly #isAnswered = new Map<Socket, boolean>();

  constructor(max: number) {
    this.#max = max;
  }

  /** Adds a new connection; closes the longest silent one if the bound is reached. */
  add(socket: Socket): void {
    if (this.#isAnswered.size >= this.#max) this.#longestSilent()?.destroy();
    this.#isAnswered.set(socket, false);
    socket.once("close", () => this.#isAnswered.delete(socket));
  }

  /** Notes that an answer to a request of this connection begins (`isAnswered`) or has been sent. */
  note(socket: Socket, isAnswered: boolean): void {
    if (this.#isAnswered.delete(socket)) this.#isAnswered.set(socket, isAnswered);
  }

  all(): readonly Socket[] {
    return [...this.#isAnswered.keys()];
  }

  // A connection that waits for an answer is closed only if all do: then some of them make us wait for the rest of a body.
  #longestSilent(): Socket | undefined {
    let oldest: Socket | undefined;
    for (const [socket, isAnswered] of this.#isAnswered) {
      // Its close event is on its way, so it makes room already.
      if (socket.destroyed) continue;
      if (!isAnswered) return socket;
      oldest ??= socket;
    }
    return oldest;
  }
}
