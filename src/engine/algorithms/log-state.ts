// The payments of one sliding log: a plain list of times and costs, oldest first. As text, the same numbers.

import { AMOUNT_MAX } from "../../base/units.ts";
import { LOG_PAYMENTS_MAX } from "../domain/limit.ts";

/** Numbers of a payment, and where its time and its sum are, from twice its number on. */
const PAYMENT_NUMBERS = 2;
const TIME = -1;
const SUM = 0;
/** Running sums are lowered when they pass this, so that they stay below 2^53. */
const SUM_MAX = 2 ** 52;

/**
 * A log while a group is decided: a copy, which counts only once the store keeps it. In place of its cost a payment has
 * the running sum of all costs up to and including its own, so that totals need no walk and waits are found by halving.
 * Payments of one time are one; so are the newest ones of a log of LOG_PAYMENTS_MAX, which then counts as paid last.
 */
export class LogState {
  /**
   * The sum before the oldest payment, then each payment's time in microseconds and its sum; what follows has no
   * meaning. All stores keep a log as these numbers.
   */
  numbers = new Float64Array(1 + 4 * PAYMENT_NUMBERS);
  /** Number of payments. */
  count = 0;
  /** The time at which payments are judged and made, in microseconds. */
  effectiveUs = 0;

  /** Number of `numbers` with a meaning. */
  get length(): number {
    return 1 + this.count * PAYMENT_NUMBERS;
  }

  /** Costs of all payments. */
  get total(): number {
    return this.#sum(this.count) - this.#sum(0);
  }

  /** Time of the newest payment; -Infinity if there isn't one. */
  get newestUs(): number {
    return this.count > 0 ? this.#time(this.count) : Number.NEGATIVE_INFINITY;
  }

  /** True if a payment made now is joined to the newest one. */
  get joins(): boolean {
    return this.count === LOG_PAYMENTS_MAX || this.newestUs === this.effectiveUs;
  }

  /**
   * True if the numbers may be those of a log: whole, times that do not decrease, sums that grow, by at most AMOUNT_MAX
   * in all.
   */
  get isSound(): boolean {
    for (let i = 0; i < this.length; i++) {
      const number = this.numbers[i] as number;
      if (!Number.isSafeInteger(number) || number < 0) return false;
      const least =
        i % PAYMENT_NUMBERS === 0 ? this.#sum(i / PAYMENT_NUMBERS - 1) + 1 : (this.numbers[i - 2] as number);
      if (i > 1 && number < least) return false;
    }
    return this.total <= AMOUNT_MAX;
  }

  /** Prepares for `count` payments, which the caller writes into `numbers`. */
  begin(count: number): void {
    this.count = count;
    if (this.numbers.length < this.length) this.#grow();
  }

  /** A copy of the numbers, for `restore`. */
  kept(): Float64Array {
    return this.numbers.slice(0, this.length);
  }

  /** Sets the log to the numbers that `kept` gave. */
  restore(kept: Float64Array): void {
    this.begin((kept.length - 1) / PAYMENT_NUMBERS);
    this.numbers.set(kept);
  }

  /** Makes the log an empty one that the store does not have. */
  clear(effectiveUs: number): void {
    this.count = 0;
    this.numbers[0] = 0;
    this.effectiveUs = effectiveUs;
  }

  /** Brings the log to `effectiveUs`: drops payments up to `oldestUs`, and dates later ones than `effectiveUs` then. */
  advance(effectiveUs: number, oldestUs: number): void {
    this.effectiveUs = effectiveUs;
    for (let i = this.count; i > 0 && this.#time(i) > effectiveUs; i--)
      this.numbers[i * PAYMENT_NUMBERS + TIME] = effectiveUs;
    const dropped = this.#countUpTo(TIME, oldestUs);
    if (dropped === 0) return;
    this.numbers.copyWithin(0, dropped * PAYMENT_NUMBERS, this.length);
    this.count -= dropped;
    if (this.#sum(0) > SUM_MAX) this.#lowerSums(0, this.#sum(0));
  }

  /** Time of the payment with whose end the oldest payments have freed `cost`. `cost` is at most `total`. */
  timeThatFrees(cost: number): number {
    return this.#time(this.#countUpTo(SUM, this.#sum(0) + cost - 1) + 1);
  }

  /** Adds a payment, made now. */
  add(cost: number): void {
    const sum = this.#sum(this.count) + cost;
    if (!this.joins) this.begin(this.count + 1);
    this.numbers[this.count * PAYMENT_NUMBERS + TIME] = this.effectiveUs;
    this.numbers[this.count * PAYMENT_NUMBERS] = sum;
  }

  /** Takes up to `cost` off, newest payments first. */
  takeOffNewest(cost: number): void {
    const sum = Math.max(this.#sum(0), this.#sum(this.count) - cost);
    const kept = this.#countUpTo(SUM, sum);
    this.count = this.#sum(kept) < sum ? kept + 1 : kept;
    this.numbers[this.count * PAYMENT_NUMBERS] = sum;
  }

  /** Takes up to `cost` off the payment of that time, if there is one. */
  takeOffAt(timeUs: number, cost: number): void {
    const i = this.#countUpTo(TIME, timeUs);
    if (i === 0 || this.#time(i) !== timeUs) return;
    const own = this.#sum(i) - this.#sum(i - 1);
    this.#lowerSums(i, Math.min(own, cost));
    if (own > cost) return;
    this.numbers.copyWithin(i * PAYMENT_NUMBERS + TIME, (i + 1) * PAYMENT_NUMBERS + TIME, this.length);
    this.count--;
  }

  #time(i: number): number {
    return this.numbers[i * PAYMENT_NUMBERS + TIME] as number;
  }

  /** The running sum up to payment `i`, counted from 1; of 0 the sum before all of them. */
  #sum(i: number): number {
    return this.numbers[i * PAYMENT_NUMBERS] as number;
  }

  /** How many of the oldest payments have at most this time, or at most this sum. */
  #countUpTo(which: typeof TIME | typeof SUM, most: number): number {
    let low = 0;
    let high = this.count;
    while (low < high) {
      const middle = (low + high + 1) >>> 1;
      if ((this.numbers[middle * PAYMENT_NUMBERS + which] as number) <= most) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  #lowerSums(from: number, by: number): void {
    for (let i = from; i <= this.count; i++) this.numbers[i * PAYMENT_NUMBERS] = this.#sum(i) - by;
  }

  #grow(): void {
    const { numbers } = this;
    this.numbers = new Float64Array(Math.max(this.length, 2 * numbers.length));
    this.numbers.set(numbers);
  }
}

/** Reads the payments of a text into the log. False if no log has these. */
export function unpackLog(text: string, into: LogState): boolean {
  const numbers = text.split(",");
  const payments = (numbers.length - 1) / 2;
  if (!Number.isInteger(payments) || payments < 1 || payments > LOG_PAYMENTS_MAX) return false;
  into.begin(payments);
  for (let i = 0; i < numbers.length; i++) into.numbers[i] = Number(numbers[i]);
  return into.isSound;
}
