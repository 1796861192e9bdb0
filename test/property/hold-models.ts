// Holds as one would write them without any store: floating point, a list, and every hold ended at its time.

/** What a settlement found, as Take.held tells it. */
export type Found = number;
export const NONE = -1;
export const SETTLED = -2;

interface ModelHold {
  readonly id: string;
  readonly cost: number;
  readonly endsAt: number;
  /** How many payments there had been. */
  readonly payment: number;
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
  /** The debt before each payment. What was given back of an earlier one has been taken off. */
  readonly #before: number[] = [];
  readonly #settledUntil = new Map<string, number>();
  /** Holds that ended without a settlement. */
  expired = 0;

  constructor(limit: ModelLimit) {
    this.#limit = limit;
  }

  get live(): number {
    return this.#live.length;
  }

  /** Room for so much, at a later time, if nobody asks or settles before. */
  roomLater(cost: number, later: number): number {
    const copy = new HoldModel(this.#limit);
    copy.#debt = this.#debt;
    copy.#at = this.#at;
    copy.#live = [...this.#live];
    copy.#before.push(...this.#before);
    return copy.room(cost, later);
  }

  /** Room for so much, at `now`; below 0 if it is missing. */
  room(cost: number, now: number): number {
    this.advance(now);
    return this.#limit.burst - this.#debt - cost;
  }

  /** Pays, whether there is room or not; true if that opened a hold. */
  pay(id: string, cost: number, now: number): boolean {
    this.advance(now);
    this.#add(cost);
    const isKnown = this.#live.some((hold) => hold.id === id) || (this.#settledUntil.get(id) ?? 0) > now;
    if (isKnown && !this.#limit.isConcurrent) return false;
    this.#live.push({ id: isKnown ? "" : id, cost, endsAt: now + this.#limit.ttl, payment: this.#before.length });
    return true;
  }

  settle(id: string, used: number, now: number): Found {
    this.advance(now);
    const hold = this.#live.find((one) => one.id === id);
    if (hold === undefined) {
      if ((this.#settledUntil.get(id) ?? 0) > now) return SETTLED;
      if (!this.#limit.isConcurrent) this.#add(used);
    } else {
      this.#live = this.#live.filter((one) => one !== hold);
      const rest = this.#limit.isConcurrent ? hold.cost : hold.cost - used;
      if (rest < 0) this.#add(-rest);
      else this.#giveBack(rest, hold.payment);
    }
    this.#settledUntil.set(id, now + this.#limit.ttl);
    return hold?.cost ?? NONE;
  }

  /** Ends what has to end by then. */
  advance(now: number): void {
    for (const hold of this.#live
      .filter(({ endsAt }) => endsAt <= now)
      .sort((one, other) => one.endsAt - other.endsAt)) {
      this.#refill(hold.endsAt);
      this.#giveBack(hold.cost, hold.payment);
    }
    const left = this.#live.filter(({ endsAt }) => endsAt > now);
    this.expired += this.live - left.length;
    this.#live = left;
    this.#refill(now);
  }

  #refill(now: number): void {
    this.#debt = Math.max(0, this.#debt - this.#limit.rate * (now - this.#at));
    this.#at = now;
  }

  #add(cost: number): void {
    this.#before.push(this.#debt);
    this.#debt += cost;
  }

  // Without that payment the debt would have been lower by it from then on, but never below nothing.
  #giveBack(cost: number, payment: number): void {
    const lacking = Math.min(cost, this.#debt, ...this.#before.slice(payment));
    this.#debt -= lacking;
    for (let i = payment; i < this.#before.length; i++) this.#before[i] = (this.#before[i] ?? 0) - lacking;
  }
}
