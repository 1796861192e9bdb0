// The lowest debt of a token bucket since each payment. A payment can be given back up to that lowest debt: without the
// payment, debt would have been lower by its cost ever since, and debt does not fall below zero. Between two payments
// debt only falls, so the lowest values are those just before payments. lua/holds.lua has the same arithmetic.

/**
 * Most lows that are kept. Each hold that is opened while debt rises needs one. Beyond the bound the two nearest lows
 * become one with the lower value, so that less is given back.
 */
const LOWS_MAX = 64;

/** The lows of one bucket, in millionths of a token. Payments are numbered in their order. */
export class DebtLows {
  /** Number of the last payment. */
  last = 0;
  /** Number of the last payment that opened a hold. */
  #lastHeld = 0;
  /** What all holds together could give back. A low at or above this bounds nothing and is not kept. */
  #held = 0;
  /** Numbers of payments and the debt before each. Both rise: a low is dropped when a later one is not higher. */
  readonly #payments: number[] = [];
  readonly #lows: number[] = [];

  /** The whole state as numbers, for `restore`. */
  numbers(): readonly number[] {
    return [
      this.last,
      this.#lastHeld,
      this.#held,
      ...this.#payments.flatMap((payment, i) => [payment, this.#lows[i] ?? 0]),
    ];
  }

  /** Replaces the whole state by the result of `numbers()`: three numbers, then two for each low. */
  restore([last = 0, lastHeld = 0, held = 0, ...pairs]: readonly number[]): void {
    this.last = last;
    this.#lastHeld = lastHeld;
    this.#held = held;
    this.#payments.length = 0;
    this.#lows.length = 0;
    for (let i = 0; i + 1 < pairs.length; i += 2) {
      this.#payments.push(pairs[i] as number);
      this.#lows.push(pairs[i + 1] as number);
    }
  }

  /** The last payment has opened a hold of `debt`. */
  hold(debt: number): void {
    this.#lastHeld = this.last;
    this.#held += debt;
  }

  /** A hold of `debt` has ended. */
  release(debt: number): void {
    this.#held -= debt;
  }

  /** Must be called before every payment, with the debt at that moment. */
  notePayment(debt: number): void {
    this.last++;
    while (this.#lows.length > 0 && (this.#lows.at(-1) as number) >= debt) this.#drop(this.#lows.length - 1);
    const coversLastHold = (this.#payments.at(-1) ?? 0) > this.#lastHeld;
    if (coversLastHold || debt >= this.#held) return;
    this.#payments.push(this.last);
    this.#lows.push(debt);
    if (this.#lows.length > LOWS_MAX) this.#join();
  }

  /** The lowest debt since that payment; Infinity if none was low enough to bound what can be given back. */
  since(payment: number): number {
    return this.#lows[this.#firstAfter(payment)] ?? Number.POSITIVE_INFINITY;
  }

  /** `debt` of that payment is given back: all lows since then become lower by it. */
  takeOff(payment: number, debt: number): void {
    const first = this.#firstAfter(payment);
    if (first === this.#lows.length) return;
    for (let i = first; i < this.#lows.length; i++) this.#lows[i] = Math.max(0, (this.#lows[i] as number) - debt);
    for (let i = first - 1; i >= 0; i--) {
      if ((this.#lows[i] as number) >= (this.#lows[i + 1] as number)) this.#drop(i);
    }
  }

  #firstAfter(payment: number): number {
    let at = 0;
    while (at < this.#payments.length && (this.#payments[at] as number) <= payment) at++;
    return at;
  }

  #join(): void {
    let nearest = 0;
    for (let i = 1; i + 1 < this.#lows.length; i++) if (this.#gapAt(i) < this.#gapAt(nearest)) nearest = i;
    this.#lows[nearest + 1] = this.#lows[nearest] as number;
    this.#drop(nearest);
  }

  #gapAt(i: number): number {
    return (this.#lows[i + 1] as number) - (this.#lows[i] as number);
  }

  #drop(i: number): void {
    this.#payments.splice(i, 1);
    this.#lows.splice(i, 1);
  }
}
