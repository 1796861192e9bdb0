// Holds as one would write them without any store: floating point, a list, and every hold ended at its time.

/** What a settlement found, as Take.counted tells it. */
export type Found = number;
const NONE = -1;
const SETTLED = -2;

interface ModelHold {
  readonly id: string;
  readonly cost: number;
  readonly paidAt: number;
  readonly endsAt: number;
}

/** Numbers of a limit with holds; times in whole microseconds. */
export interface ModelLimit {
  /** Tokens that return per microsecond; 0 for `concurrent`. */
  readonly rate: number;
  readonly burst: number;
  readonly ttl: number;
  readonly isConcurrent: boolean;
}

/** A token bucket with holds. Right to some millionths of a token. */
export class HoldModel {
  readonly #limit: ModelLimit;
  #debt = 0;
  #at = 0;
  #live: ModelHold[] = [];
  readonly #settledUntil = new Map<string, number>();

  constructor(limit: ModelLimit) {
    this.#limit = limit;
  }

  /** Room for so much, at `now`; below 0 if it is missing. */
  room(cost: number, now: number): number {
    this.#advance(now);
    return this.#limit.burst - this.#debt - cost;
  }

  /** Pays, whether there is room or not, and opens a hold. */
  pay(id: string, cost: number, now: number): void {
    this.#advance(now);
    this.#debt += cost;
    const isKnown = this.#live.some((hold) => hold.id === id) || (this.#settledUntil.get(id) ?? 0) > now;
    if (isKnown && !this.#limit.isConcurrent) return;
    this.#live.push({ id: isKnown ? "" : id, cost, paidAt: now, endsAt: now + this.#limit.ttl });
  }

  settle(id: string, used: number, now: number): Found {
    this.#advance(now);
    const hold = this.#live.find((one) => one.id === id);
    if (hold === undefined) {
      if ((this.#settledUntil.get(id) ?? 0) > now) return SETTLED;
      if (this.#limit.isConcurrent) return NONE;
      this.#debt += used;
    } else {
      this.#live = this.#live.filter((one) => one !== hold);
      const rest = this.#limit.isConcurrent ? hold.cost : hold.cost - used;
      if (rest < 0) this.#debt -= rest;
      else this.#giveBack(rest, hold.paidAt, now);
    }
    this.#settledUntil.set(id, now + this.#limit.ttl);
    return hold?.cost ?? NONE;
  }

  #advance(now: number): void {
    for (const hold of this.#live
      .filter(({ endsAt }) => endsAt <= now)
      .sort((one, other) => one.endsAt - other.endsAt)) {
      this.#refill(hold.endsAt);
      this.#giveBack(hold.cost, hold.paidAt, hold.endsAt);
    }
    this.#live = this.#live.filter(({ endsAt }) => endsAt > now);
    this.#refill(now);
  }

  #refill(now: number): void {
    this.#debt = Math.max(0, this.#debt - this.#limit.rate * (now - this.#at));
    this.#at = now;
  }

  // What has refilled since is there already.
  #giveBack(cost: number, paidAt: number, now: number): void {
    this.#debt = Math.max(0, this.#debt - Math.max(0, cost - this.#limit.rate * (now - paidAt)));
  }
}
