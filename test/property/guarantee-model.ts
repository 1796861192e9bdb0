// What guarantees promise, in exact fractions and without any code of ours; and generated services to hold against it.

import fc from "fast-check";

/** A rate of `amount` per `seconds`, and a burst. */
interface Numbers {
  readonly amount: number;
  readonly seconds: number;
  readonly burst: number;
}

/** A shared limit with guarantees, in whole numbers. */
export interface SharedNumbers {
  readonly shared: Numbers;
  readonly own: Numbers;
  readonly percent: number;
}

export interface AskedShare {
  /** Who calls; undefined: nobody who has a guarantee. */
  readonly caller: number | undefined;
  readonly cost: number;
  /** After the call before. */
  readonly afterUs: number;
  /** So many calls at once. */
  readonly times: number;
}

const MICROS = 1_000_000n;

/** A token bucket whose debt is counted in parts of 1 / (seconds x 1,000,000) of a token, so that nothing is rounded. */
class ExactBucket {
  #debt = 0n;
  #atUs = 0n;

  /** What was spent and has not returned, at the time, in the parts of these numbers. */
  advance({ amount }: Numbers, atUs: number): void {
    const returned = (BigInt(atUs) - this.#atUs) * BigInt(amount);
    this.#debt = this.#debt > returned ? this.#debt - returned : 0n;
    this.#atUs = BigInt(atUs);
  }

  hasRoom({ seconds }: Numbers, burst: number, cost: number): boolean {
    return this.#debt + partsOf(cost, seconds) <= partsOf(burst, seconds);
  }

  pay({ seconds }: Numbers, cost: number): void {
    this.#debt += partsOf(cost, seconds);
  }

  take(parts: bigint): void {
    this.#debt = this.#debt > parts ? this.#debt - parts : 0n;
  }
}

function partsOf(tokens: number, seconds: number): bigint {
  return BigInt(tokens) * BigInt(seconds) * MICROS;
}

export type Way = "guaranteed" | "borrowed" | "refused" | "broken";

/** Tokens that are kept: the percentage, rounded up, but never the whole burst. */
export function keptTokens({ shared: { burst }, percent }: SharedNumbers): number {
  const part = (BigInt(burst) * BigInt(percent) + 99n) / 100n;
  return Math.min(Number(part), burst - 1);
}

/** For how many callers the numbers keep it. */
export function keptFor(numbers: SharedNumbers): number {
  const { shared, own } = numbers;
  let callers = 0;
  while (
    BigInt(callers + 1) * BigInt(own.amount) * BigInt(shared.seconds) <= BigInt(shared.amount) * BigInt(own.seconds) &&
    (callers + 1) * own.burst <= keptTokens(numbers)
  )
    callers++;
  return callers;
}

/** One shared limit and its callers. */
export class GuaranteeModel {
  #numbers: SharedNumbers;
  readonly #shared = new ExactBucket();
  readonly #own = new Map<number, ExactBucket>();
  /** The payment of the last call that passed. */
  #paid: { readonly own: ExactBucket | undefined; readonly cost: number; readonly atUs: number } | undefined;

  constructor(numbers: SharedNumbers) {
    this.#numbers = numbers;
  }

  /** Other bursts or another kept part from now on; what was spent stays spent. */
  edit(numbers: SharedNumbers): void {
    this.#numbers = numbers;
  }

  /** How a call passes, or `broken` if it is refused although its caller's guarantee covers it. */
  ask(caller: number | undefined, cost: number, atUs: number): Way {
    const { shared, own } = this.#numbers;
    this.#shared.advance(shared, atUs);
    const bucket = caller === undefined ? undefined : (this.#own.get(caller) ?? new ExactBucket());
    if (caller !== undefined && bucket !== undefined) this.#own.set(caller, bucket);
    bucket?.advance(own, atUs);
    if (bucket?.hasRoom(own, own.burst, cost)) {
      if (!this.#shared.hasRoom(shared, shared.burst, cost)) return "broken";
      bucket.pay(own, cost);
      this.#shared.pay(shared, cost);
      this.#paid = { own: bucket, cost, atUs };
      return "guaranteed";
    }
    if (!this.#shared.hasRoom(shared, shared.burst - keptTokens(this.#numbers), cost)) return "refused";
    this.#shared.pay(shared, cost);
    this.#paid = { own: undefined, cost, atUs };
    return "borrowed";
  }

  /**
   * Gives back what the last call that passed has paid, but for what has returned meanwhile, rounded up by a part. Its
   * guarantee gets no more than the shared bucket.
   */
  giveBack(atUs: number): void {
    const { shared, own } = this.#numbers;
    if (this.#paid === undefined) return;
    const us = atUs - this.#paid.atUs;
    const parts = partsOf(this.#paid.cost, shared.seconds) - (us > 0 ? BigInt(us * shared.amount) + 1n : 0n);
    this.#shared.advance(shared, atUs);
    this.#paid.own?.advance(own, atUs);
    if (parts > 0n) for (const bucket of [this.#shared, this.#paid.own]) bucket?.take(parts);
    this.#paid = undefined;
  }
}

/** Any numbers: rates of whole tokens per second, so that a rule file writes them as they are. */
export const sharedNumbers: fc.Arbitrary<SharedNumbers> = fc
  .record({
    rate: fc.integer({ min: 1, max: 60 }),
    more: fc.integer({ min: 0, max: 300 }),
    ownRate: fc.integer({ min: 1, max: 12 }),
    ownBurst: fc.integer({ min: 1, max: 12 }),
    percent: fc.oneof(fc.constantFrom(1, 10, 50, 99), fc.integer({ min: 1, max: 99 })),
  })
  .map(({ rate, more, ownRate, ownBurst, percent }) => ({
    shared: { amount: rate, seconds: 1, burst: rate + more },
    own: { amount: ownRate, seconds: 1, burst: ownBurst },
    percent,
  }));

/** Calls of so many callers, many of them at once; about one in five has no caller with a guarantee. */
export function askedShares(callers: number, maxLength: number): fc.Arbitrary<readonly AskedShare[]> {
  return fc.array(
    fc.record({
      caller: fc
        .integer({ min: -1, max: Math.max(0, callers - 1) * 5 + 4 })
        .map((n) => (n < 0 ? undefined : n % callers)),
      cost: fc.oneof(
        { weight: 3, arbitrary: fc.constant(1) },
        { weight: 1, arbitrary: fc.integer({ min: 1, max: 14 }) },
      ),
      afterUs: fc.oneof(
        fc.constantFrom(0, 1),
        fc.integer({ min: 0, max: 100_000 }),
        fc.integer({ min: 0, max: 3_000_000 }),
      ),
      times: fc.oneof(fc.constant(1), fc.integer({ min: 1, max: 30 })),
    }),
    { minLength: 1, maxLength },
  );
}

/** The rule file of these numbers. */
export function rulesOf({ shared, own, percent }: SharedNumbers, callers: number, isGlobal: boolean): string {
  const limit = {
    tokens_per_second: shared.amount,
    burst: shared.burst,
    guarantee: { entry: "tenant", tokens_per_second: own.amount, burst: own.burst, keep: `${percent}%`, callers },
  };
  return JSON.stringify(
    isGlobal
      ? { domain: "edge", global_limit: { ...limit, count: "hits" } }
      : { domain: "edge", descriptors: [{ key: "app", rate_limit: limit }] },
  );
}
