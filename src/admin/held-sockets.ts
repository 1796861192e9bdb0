// The connections that an HTTP server holds, up to a bound. A newcomer beyond it gets the place of whoever has been silent
// longest: probes are newcomers, and those who idle must not keep them out.

import type { Socket } from "node:net";

export class HeldSockets {
  readonly #max: number;
  // In the order in which they last connected, or began or ended a whole request; true while one is answered. Bytes that
  // are no whole request move nobody: they may come one a second.
  readonly #isAnswered = new Map<Socket, boolean>();

  constructor(max: number) {
    this.#max = max;
  }

  /** Takes a new connection, and closes another if there is no room. */
  add(socket: Socket): void {
    if (this.#isAnswered.size >= this.#max) this.#longestSilent()?.destroy();
    this.#isAnswered.set(socket, false);
    socket.once("close", () => this.#isAnswered.delete(socket));
  }

  /** Notes that a request of this connection begins to be answered, or that its answer is out. */
  note(socket: Socket, isAnswered: boolean): void {
    if (this.#isAnswered.delete(socket)) this.#isAnswered.set(socket, isAnswered);
  }

  all(): readonly Socket[] {
    return [...this.#isAnswered.keys()];
  }

  // Whoever waits for an answer goes only if all do: then some of them have us wait for the rest of a body.
  #longestSilent(): Socket | undefined {
    let oldest: Socket | undefined;
    for (const [socket, isAnswered] of this.#isAnswered) {
      // Its close is on its way already.
      if (socket.destroyed) continue;
      if (!isAnswered) return socket;
      oldest ??= socket;
    }
    return oldest;
  }
}
