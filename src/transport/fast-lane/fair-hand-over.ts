// Shares the time that grpc-js takes among connections. grpc-js needs about a millisecond to open a stream, and as long to answer
// one piece of requests; most of that comes after the hand-over. So each turn of the event loop does one piece of work, for the
// connection that has had the fewest turns: a connection that hands over much waits for all others.

/** A connection with work for grpc-js. */
export interface TurnTaker {
  /** Its streams that could be displaced: those that are not ending already. */
  readonly streams: number;
  /** The peer's address; equal for all connections from one host. */
  readonly address: string;
  /** Turns that it has had; counted here. */
  turns: number;
  /** Does the next piece of work; returns whether there is more. */
  takeTurn(): boolean;
  /** Ends its newest stream that is not ending already, to make room. False if there is none. */
  displaceOne(): boolean;
}

/**
 * Most streams that are begun or refused in one turn; what other sockets have read then waits for the next turn. Each takes up to 30
 * microseconds, and one turn may read hundreds of sockets. Half of them are reserved for sockets that have waited.
 */
const BEGUN_PER_TURN_MAX = 128;
const BEGUN_LATE_MAX = BEGUN_PER_TURN_MAX / 2;

export class FairHandOver {
  readonly #streamsMax: number;
  // Connections with work, in the order in which they got it or had their last turn.
  readonly #waiting = new Set<TurnTaker>();
  // Connections with streams that could be displaced, and the number of these streams by address.
  readonly #holders = new Set<TurnTaker>();
  readonly #byAddress = new Map<string, number>();
  readonly #run = () => this.#takeTurn();
  #isTurnDue = false;
  // Ends of connections that are gone, oldest first; and whether the last turn was for one.
  readonly #ends: (() => void)[] = [];
  #isTurnToEnd = false;
  // Streams begun in this turn; and the reads that wait for a later turn.
  #begun = 0;
  #late: (() => void)[] = [];
  #isTurnEndDue = false;
  /** Streams of all connections that could be displaced. */
  streams = 0;

  constructor(streamsMax: number) {
    this.#streamsMax = streamsMax;
  }

  /** True if this turn has begun so many streams that further reads should wait for `readLater`. */
  get isTurnFull(): boolean {
    return this.#begun >= BEGUN_PER_TURN_MAX;
  }

  /** Calls `read` in a later turn, in the order of the calls to this. */
  readLater(read: () => void): void {
    this.#late.push(read);
    this.#endTurn();
  }

  /** Notes that a stream is begun or refused. */
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

  /** Gives a connection turns until its work is done. */
  enter(taker: TurnTaker): void {
    this.#waiting.add(taker);
    this.#scheduleTurn();
  }

  /** Ends what a connection that is gone had at grpc-js, in a turn of its own: every other turn is for such work, if there is any. */
  endLater(end: () => void): void {
    this.#ends.push(end);
    this.#scheduleTurn();
  }

  #scheduleTurn(): void {
    if (this.#isTurnDue) return;
    this.#isTurnDue = true;
    setImmediate(this.#run);
  }

  /**
   * Whether a connection may open one more stream. If all places are taken, the address with the most streams loses one. But if the
   * address of `taker` would then have as many as that one, its own fullest connection loses one, by the same rule. So a flood costs the
   * flooder, even one of single streams on many connections, and newcomers don't displace each other. Streams that are ending take no
   * place, or a flooder who leaves would keep all places for as long as grpc-js needs to end its streams. So grpc-js may have that many
   * more.
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

  /** Notes that a stream is ending; to be called after `taker.streams` has fallen. */
  noteEnding(taker: TurnTaker): void {
    this.streams--;
    if (taker.streams === 0) this.#holders.delete(taker);
    const left = (this.#byAddress.get(taker.address) ?? 0) - 1;
    if (left > 0) this.#byAddress.set(taker.address, left);
    else this.#byAddress.delete(taker.address);
  }

  #takeTurn(): void {
    this.#isTurnDue = false;
    this.#isTurnToEnd = this.#waiting.size === 0 || (this.#ends.length > 0 && !this.#isTurnToEnd);
    if (this.#isTurnToEnd) this.#ends.shift()?.();
    else this.#takeTurnOfFewest();
    if (this.#waiting.size > 0 || this.#ends.length > 0) this.#scheduleTurn();
  }

  #takeTurnOfFewest(): void {
    let taker: TurnTaker | undefined;
    for (const one of this.#waiting) if (taker === undefined || one.turns < taker.turns) taker = one;
    if (taker === undefined) return;
    this.#waiting.delete(taker);
    taker.turns++;
    if (taker.takeTurn()) this.#waiting.add(taker);
  }
}
