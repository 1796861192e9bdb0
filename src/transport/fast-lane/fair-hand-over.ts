// Whose turn it is to hand something to grpc-js. It takes about a millisecond to open a stream, and as long for what one piece
// of requests asks for; most of it comes later than the handing. So there is one piece of work in a turn of the event loop,
// and it is that of the connection that has had the fewest turns: who hands over much waits for all others.

/** A connection that has work waiting. */
export interface TurnTaker {
  /** Streams of it that grpc-js has, or is about to get. */
  readonly streams: number;
  /** Where its peer is; the same for all that come from one host. */
  readonly address: string;
  /** Turns that it has taken; counted here. */
  turns: number;
  /** Does the next piece of work; returns whether more waits. */
  takeTurn(): boolean;
  /** Ends the newest of its streams, so that others have room. False if all are ending already. */
  displaceOne(): boolean;
}

/**
 * Streams that are begun or refused in one turn before what other sockets have read waits for the next: each takes up to 30
 * microseconds, and sockets by the hundred are read in one turn. Half of them are for those that have waited.
 */
const BEGUN_PER_TURN_MAX = 128;
const BEGUN_LATE_MAX = BEGUN_PER_TURN_MAX / 2;

export class FairHandOver {
  readonly #streamsMax: number;
  // Connections with work, in the order in which they came to have it, or had their last turn.
  readonly #waiting = new Set<TurnTaker>();
  // Connections with streams, and how many streams each address has.
  readonly #holders = new Set<TurnTaker>();
  readonly #byAddress = new Map<string, number>();
  readonly #run = () => this.#takeTurn();
  // Begun in this turn; and who waits to read on in a later one.
  #begun = 0;
  #late: (() => void)[] = [];
  #isTurnEndDue = false;
  /** Streams of all connections that grpc-js has, or is about to get. */
  streams = 0;

  constructor(streamsMax: number) {
    this.#streamsMax = streamsMax;
  }

  /** True if so many streams were begun in this turn that what sockets have read should wait: for `readLater`. */
  get isTurnFull(): boolean {
    return this.#begun >= BEGUN_PER_TURN_MAX;
  }

  /** Calls `read` in a later turn; those that wait are called in the order in which they came. */
  readLater(read: () => void): void {
    this.#late.push(read);
    this.#endTurn();
  }

  /** A stream is begun or refused. */
  noteBegun(): void {
    this.#begun++;
    this.#endTurn();
  }

  #endTurn(): void {
    if (this.#isTurnEndDue) return;
    this.#isTurnEndDue = true;
    setImmediate(this.#onTurnEnd);
  }

  readonly #onTurnEnd = (): void => {
    this.#isTurnEndDue = false;
    this.#begun = 0;
    let read = 0;
    while (read < this.#late.length && this.#begun < BEGUN_LATE_MAX) this.#late[read++]?.();
    this.#late.splice(0, read);
    if (this.#late.length > 0) this.#endTurn();
  };

  /** Lets a connection do a piece of its work when its turn comes, and then the next. */
  enter(taker: TurnTaker): void {
    if (this.#waiting.size === 0) setImmediate(this.#run);
    this.#waiting.add(taker);
  }

  /**
   * Whether a connection may have one more stream. If there is no room for any, the address that has most gives one up, unless
   * that of `taker` would then have as many; then its own fullest connection does, by the same rule. So a flood costs the
   * flooder, even one with a single stream on each of many connections, and newcomers don't drive out each other.
   */
  mayOpen(taker: TurnTaker): boolean {
    if (this.streams < this.#streamsMax) return true;
    let address = taker.address;
    const own = this.#byAddress.get(address) ?? 0;
    let most = own + 1;
    for (const [other, streams] of this.#byAddress) if (streams > most) [address, most] = [other, streams];
    const fullest = this.#fullestAt(address);
    if (fullest === undefined) return false;
    if (address === taker.address && fullest.streams <= taker.streams + 1) return false;
    return fullest.displaceOne();
  }

  #fullestAt(address: string): TurnTaker | undefined {
    let fullest: TurnTaker | undefined;
    for (const holder of this.#holders) {
      if (holder.address === address && holder.streams > (fullest?.streams ?? 0)) fullest = holder;
    }
    return fullest;
  }

  noteOpened(taker: TurnTaker): void {
    this.streams++;
    this.#holders.add(taker);
    this.#byAddress.set(taker.address, (this.#byAddress.get(taker.address) ?? 0) + 1);
  }

  /** To be called after `taker.streams` has fallen. */
  noteGone(taker: TurnTaker): void {
    this.streams--;
    if (taker.streams === 0) this.#holders.delete(taker);
    const left = (this.#byAddress.get(taker.address) ?? 0) - 1;
    if (left > 0) this.#byAddress.set(taker.address, left);
    else this.#byAddress.delete(taker.address);
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
