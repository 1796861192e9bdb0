// What one caller has used of a limit, bounded from one side. Of each caller judge.ts keeps two meters: the `least`
// that can be used, in which payments come as early as they can, and the `most`, in which they come as late as they
// can. Times are in milliseconds and never decrease.

import type { Algorithm, Limit } from "./limit.ts";

/** Which bound a meter keeps. */
export type Bound = "least" | "most";

/** How far the clock of a service may run fast or slow: as much as NTP slews. */
const CLOCK_DRIFT = 0.0005;

/** `phaseMs`: when windows begin after multiples of their length. */
export function createMeter({ amount, windowMs }: Limit, algorithm: Algorithm, bound: Bound, phaseMs: number): Meter {
  const speed = 1 + (bound === "least" ? CLOCK_DRIFT : -CLOCK_DRIFT);
  if (algorithm === "token_bucket") return new BucketMeter((amount / windowMs) * speed);
  if (algorithm === "sliding_log") return new LogMeter(windowMs / speed);
  return new WindowMeter(windowMs, phaseMs, algorithm === "sliding_window", bound);
}

export abstract class Meter {
  protected at = 0;

  /** Hits in use at the time of the last `advance`. */
  abstract readonly used: number;
  abstract advance(at: number): void;
  abstract pay(cost: number): void;
  abstract giveBack(cost: number): void;
  /** Milliseconds until at most `used` are in use, if nobody pays. */
  abstract waitFor(used: number): number;

  /** Caps what is in use. */
  atMost(_used: number): void {
    // Nothing unless a meter overrides it.
  }

  /** A call of this cost was refused up to `agoMs` ago: no more than `quota - cost` was free of `quota`. */
  refused(_cost: number, _quota: number, _agoMs: number): void {
    // Nothing unless a meter overrides it.
  }

  /** Nothing is known of the time before now. */
  fill(quota: number): void {
    this.pay(quota);
  }

  /** Whether both times lie in the same window. */
  isOneWindow(_from: number, _to: number): boolean {
    return true;
  }
}

class BucketMeter extends Meter {
  used = 0;
  readonly #perMs: number;

  constructor(perMs: number) {
    super();
    this.#perMs = perMs;
  }

  advance(at: number): void {
    this.used = Math.max(0, this.used - (at - this.at) * this.#perMs);
    this.at = at;
  }

  pay(cost: number): void {
    this.used += cost;
  }

  giveBack(cost: number): void {
    this.used = Math.max(0, this.used - cost);
  }

  override atMost(used: number): void {
    this.used = Math.min(this.used, used);
  }

  override refused(cost: number, quota: number, agoMs: number): void {
    this.used = Math.max(this.used, quota - cost - agoMs * this.#perMs);
  }

  waitFor(used: number): number {
    return Math.max(0, this.used - used) / this.#perMs;
  }
}

class WindowMeter extends Meter {
  readonly #windowMs: number;
  readonly #phaseMs: number;
  readonly #slides: boolean;
  readonly #bound: Bound;
  #current = 0;
  #previous = 0;

  constructor(windowMs: number, phaseMs: number, slides: boolean, bound: Bound) {
    super();
    this.#windowMs = windowMs;
    this.#phaseMs = phaseMs;
    this.#slides = slides;
    this.#bound = bound;
  }

  get used(): number {
    return this.#current + (this.#slides ? this.#previous * this.#rest() : 0);
  }

  advance(at: number): void {
    const passed = this.#window(at) - this.#window(this.at);
    this.at = at;
    if (passed === 0) return;
    this.#previous = passed === 1 ? this.#current : 0;
    this.#current = 0;
  }

  pay(cost: number): void {
    this.#current += cost;
  }

  giveBack(cost: number): void {
    // Services differ in which of the two windows they take it from, and the payment may be in either.
    if (this.#slides && this.#bound === "most") return;
    this.#previous = Math.max(0, this.#previous - Math.max(0, cost - this.#current));
    this.#current = Math.max(0, this.#current - cost);
  }

  override atMost(used: number): void {
    this.#current = Math.min(this.#current, used);
  }

  override refused(cost: number, quota: number): void {
    // A sliding window may have refused because of either count.
    if (!this.#slides) this.#current = Math.max(this.#current, quota - cost + 1);
  }

  override fill(quota: number): void {
    this.#current = quota;
    this.#previous = quota;
  }

  waitFor(used: number): number {
    if (this.used <= used) return 0;
    if (!this.#slides) return this.#rest() * this.#windowMs;
    const isSoon = this.#current <= used;
    const share = isSoon ? (used - this.#current) / this.#previous : used / this.#current - 1;
    return (this.#rest() - share) * this.#windowMs;
  }

  override isOneWindow(from: number, to: number): boolean {
    return this.#window(from) === this.#window(to);
  }

  #window(at: number): number {
    return Math.floor((at - this.#phaseMs) / this.#windowMs);
  }

  /** Share of the current window that is left. */
  #rest(): number {
    return 1 + this.#window(this.at) - (this.at - this.#phaseMs) / this.#windowMs;
  }
}

class LogMeter extends Meter {
  used = 0;
  readonly #windowMs: number;
  /** Oldest first. */
  readonly #payments: { readonly at: number; cost: number }[] = [];

  constructor(windowMs: number) {
    super();
    this.#windowMs = windowMs;
  }

  advance(at: number): void {
    this.at = at;
    for (
      let [first] = this.#payments;
      first !== undefined && first.at + this.#windowMs <= at;
      [first] = this.#payments
    ) {
      this.used -= first.cost;
      this.#payments.shift();
    }
  }

  pay(cost: number): void {
    this.#payments.push({ at: this.at, cost });
    this.used += cost;
  }

  giveBack(cost: number): void {
    let left = Math.min(cost, this.used);
    this.used -= left;
    for (const payment of this.#payments.toReversed()) {
      const taken = Math.min(left, payment.cost);
      payment.cost -= taken;
      left -= taken;
    }
  }

  waitFor(used: number): number {
    let left = this.used;
    if (left <= used) return 0;
    const last = this.#payments.find(({ cost }) => {
      left -= cost;
      return left <= used;
    });
    return last === undefined ? 0 : last.at + this.#windowMs - this.at;
  }
}
