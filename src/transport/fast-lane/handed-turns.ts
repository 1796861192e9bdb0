// Whose turn it is to hand something to grpc-js. It takes about a millisecond to open a stream, and as long for what one piece
// of requests asks for; most of it comes later than the handing. So there is one piece of work in a turn of the event loop,
// and it is that of the connection that has had the fewest turns: who hands over much waits for all others.

/** A connection that has work waiting. */
export interface TurnTaker {
  /** Streams of it that grpc-js has, or is about to get. */
  readonly streams: number;
  /** Turns that it has taken; counted here. */
  turns: number;
  /** Does the next piece of work; returns whether more waits. */
  takeTurn(): boolean;
  /** Ends the newest of its streams, so that others have room. False if all are ending already. */
  displaceOne(): boolean;
}

export class HandedTurns {
  readonly #streamsMax: number;
  // Connections with work, in the order in which they came to have it, or had their last turn.
  readonly #waiting = new Set<TurnTaker>();
  // Connections with streams.
  readonly #holders = new Set<TurnTaker>();
  readonly #run = () => this.#takeTurn();
  /** Streams of all connections that grpc-js has, or is about to get. */
  streams = 0;

  constructor(streamsMax: number) {
    this.#streamsMax = streamsMax;
  }

  /** Lets a connection do a piece of its work when its turn comes, and then the next. */
  enter(taker: TurnTaker): void {
    if (this.#waiting.size === 0) setImmediate(this.#run);
    this.#waiting.add(taker);
  }

  /**
   * Whether a connection may have one more stream. If there is no room for any, whoever has most gives one up, unless
   * `taker` would then have as many: a flood costs the flooder, and newcomers don't drive out each other.
   */
  mayOpen(taker: TurnTaker): boolean {
    if (this.streams < this.#streamsMax) return true;
    let fullest: TurnTaker | undefined;
    for (const holder of this.#holders) if (holder.streams > (fullest?.streams ?? 0)) fullest = holder;
    if (fullest === undefined || fullest.streams <= taker.streams + 1) return false;
    return fullest.displaceOne();
  }

  noteOpened(taker: TurnTaker): void {
    this.streams++;
    this.#holders.add(taker);
  }

  /** To be called after `taker.streams` has fallen. */
  noteGone(taker: TurnTaker): void {
    this.streams--;
    if (taker.streams === 0) this.#holders.delete(taker);
  }

  #takeTurn(): void {
    let taker: TurnTaker | undefined;
    for (const one of this.#waiting) if (taker === undefined || one.turns < taker.turns) taker = one;
    if (taker === undefined) return;
    this.#waiting.delete(taker);
    taker.turns++;
    if (taker.takeTurn()) this.#waiting.add(taker);
    if (this.#waiting.size > 0) setImmediate(this.#run);
  }
}
