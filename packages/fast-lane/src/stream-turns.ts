// Shares the time that calls with streams take: a request of 7 bytes may have an answer of 20 KB, and one read of a
// socket may hold thousands. Each turn of the event loop handles a few, one for each connection in turn, so a
// connection with many delays only itself.

/** A call with something to do. */
interface TurnTaker {
  /** Does one piece of it; returns whether there is more. */
  takeTurn(): boolean;
}

/** Pieces of all connections in one turn: an answer takes some 100 us. */
const PIECES_PER_TURN = 16;

export class StreamTurns {
  // By connection the calls that wait, both in the order of their turns.
  readonly #waiting = new Map<unknown, Set<TurnTaker>>();
  readonly #run = () => this.#takeTurns();
  #isDue = false;

  /** Gives a call of `connection` turns until it has nothing to do. */
  enter(connection: unknown, call: TurnTaker): void {
    const calls = this.#waiting.get(connection);
    if (calls === undefined) this.#waiting.set(connection, new Set([call]));
    else calls.add(call);
    this.#schedule();
  }

  /** Forgets a connection that has ended. */
  leave(connection: unknown): void {
    this.#waiting.delete(connection);
  }

  #schedule(): void {
    if (this.#isDue || this.#waiting.size === 0) return;
    this.#isDue = true;
    setImmediate(this.#run);
  }

  #takeTurns(): void {
    this.#isDue = false;
    for (let left = PIECES_PER_TURN; left > 0; left--) {
      const [next] = this.#waiting;
      if (next === undefined) return;
      this.#takeTurn(...next);
    }
    this.#schedule();
  }

  #takeTurn(connection: unknown, calls: Set<TurnTaker>): void {
    const [call] = calls as Iterable<TurnTaker> as [TurnTaker];
    calls.delete(call);
    if (call.takeTurn()) calls.add(call);
    // To the end of the queue, unless the connection has ended meanwhile.
    if (!this.#waiting.delete(connection) || calls.size === 0) return;
    this.#waiting.set(connection, calls);
  }
}
