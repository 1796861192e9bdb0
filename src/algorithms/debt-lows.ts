// How low a token bucket's debt has been since a payment. No more than that lowest debt is left of the payment to give back:
// without the payment the debt would have been lower by it all the time since, and debt does not go below zero. Between two
// payments debt only falls, so it is lowest just before a payment. lua/holds.lua has the same arithmetic.

/**
 * Lows that are kept: as many as holds were opened one after another while debt rose. Of more, the two that are nearest to each
 * other become one, the lower: less is given back then.
 */
const LOWS_MAX = 64;

/** The lows of one bucket, in millionths of a token. Payments have numbers, in their order. */
export class DebtLows {
  /** Number of the last payment, and of the last one that opened a hold. */
  last = 0;
  #lastHeld = 0;
  /** What all holds together could give back: higher lows tell nothing. */
  #held = 0;
  /** Numbers of payments, rising, and the debt before each, rising too: a higher one before a lower one is never the lowest. */
  readonly #payments: number[] = [];
  readonly #lows: number[] = [];

  /** All of it as numbers, for `restore`. */
  numbers(): readonly number[] {
    return [
      this.last,
      this.#lastHeld,
      this.#held,
      ...this.#payments.flatMap((payment, i) => [payment, this.#lows[i] ?? 0]),
    ];
  }

  /** Makes empty lows those that the numbers were of: three, and two for each low. */
  restore([last = 0, lastHeld = 0, held = 0, ...pairs]: readonly number[]): void {
    this.last = last;
    this.#lastHeld = lastHeld;
    this.#held = held;
    for (let i = 0; i + 1 < pairs.length; i += 2) {
      this.#payments.push(pairs[i] as number);
      this.#lows.push(pairs[i + 1] as number);
    }
  }

  /** The last payment has opened a hold. */
  hold(debt: number): void {
    this.#lastHeld = this.last;
    this.#held += debt;
  }

  /** A hold of so much has gone. */
  release(debt: number): void {
    this.#held -= debt;
  }

  /** A payment is about to be made on that debt. */
  notePayment(debt: number): void {
    this.last++;
    while (this.#lows.length > 0 && (this.#lows.at(-1) as number) >= debt) this.#drop(this.#lows.length - 1);
    const isSame = (this.#payments.at(-1) ?? 0) > this.#lastHeld;
    if (isSame || debt >= this.#held) return;
    this.#payments.push(this.last);
    this.#lows.push(debt);
    if (this.#lows.length > LOWS_MAX) this.#join();
  }

  /** The lowest debt before a payment after that one; infinity if none was low enough to tell. */
  since(payment: number): number {
    return this.#lows[this.#firstAfter(payment)] ?? Number.POSITIVE_INFINITY;
  }

  /** So much of that payment is given back: had it never been made, debt would have been lower by it ever since. */
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
