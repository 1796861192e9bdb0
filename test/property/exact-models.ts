// What each algorithm promises, said another way than src/engine/algorithms says it: whole histories of payments in place of
// state, BigInt in place of bounds on doubles. Slow and plain. Time only goes forward here.

import { Algorithm } from "../../src/engine/domain/limit.ts";
import { Mode, Outcome } from "../../src/engine/domain/take.ts";
import type { LimitNumbers } from "./histories.ts";

export interface ModelAnswer {
  readonly outcome: Outcome;
  readonly remaining: number;
}

/** Answers takes on one bucket. */
export interface Model {
  take(nowUs: number, cost: number, mode: Mode): ModelAnswer;
}

/** The model of a limit. */
export function modelOf(numbers: LimitNumbers): Model {
  if (numbers.algorithm === Algorithm.tokenBucket) return new LevelModel(numbers);
  if (numbers.algorithm === Algorithm.slidingLog) return new LogModel(numbers);
  return new WindowModel(numbers);
}

const MILLION = 1_000_000n;
const COUNT_MAX = 4_294_967_295n;

function leastOf(a: bigint, b: bigint): bigint {
  return a < b ? a : b;
}

function atLeastZero(value: bigint): bigint {
  return value > 0n ? value : 0n;
}

/**
 * Token bucket as the level of what is there, in millionths of a token over the window, so that every microsecond brings a
 * whole number of them.
 */
class LevelModel implements Model {
  readonly #numbers: LimitNumbers;
  readonly #window: bigint;
  readonly #full: bigint;
  #level: bigint;
  #seenUs = 0n;

  constructor(numbers: LimitNumbers) {
    this.#numbers = numbers;
    this.#window = BigInt(numbers.windowSeconds);
    this.#full = BigInt(numbers.burst) * MILLION * this.#window;
    this.#level = this.#full;
  }

  take(nowUs: number, cost: number, mode: Mode): ModelAnswer {
    this.#fill(BigInt(nowUs));
    const price = BigInt(cost) * MILLION * this.#window;
    // Parts of a millionth are there, but not to be spent.
    const isOver = this.#wholeLevel() < price;
    let outcome: Outcome = Outcome.room;
    if (mode === Mode.pay || mode === Mode.peek) {
      if (price > this.#full) outcome = Outcome.never;
      else if (isOver) outcome = Outcome.over;
    }
    if (mode === Mode.pay && outcome === Outcome.room) this.#level -= price;
    if (mode === Mode.postPaid) this.#postPay(price);
    if (mode === Mode.refund) this.#level += price;
    if (this.#wholeLevel() >= this.#full) this.#level = this.#full;
    return { outcome, remaining: Number(atLeastZero(this.#wholeLevel()) / this.#window / MILLION) };
  }

  #postPay(price: bigint): void {
    const lowest = this.#full - BigInt(this.#numbers.debtMax) * MILLION * this.#window;
    const rest = this.#level - this.#wholeLevel();
    this.#level = rest + (this.#wholeLevel() - price > lowest ? this.#wholeLevel() - price : lowest);
  }

  #wholeLevel(): bigint {
    const rest = this.#level % this.#window;
    return this.#level - (rest < 0n ? rest + this.#window : rest);
  }

  #fill(nowUs: bigint): void {
    this.#level += (nowUs - this.#seenUs) * BigInt(this.#numbers.amount);
    this.#seenUs = nowUs;
    if (this.#wholeLevel() >= this.#full) this.#level = this.#full;
  }
}

/** Both windows as a count for every aligned window there ever was. */
class WindowModel implements Model {
  readonly #numbers: LimitNumbers;
  readonly #counts = new Map<bigint, bigint>();

  constructor(numbers: LimitNumbers) {
    this.#numbers = numbers;
  }

  take(nowUs: number, cost: number, mode: Mode): ModelAnswer {
    const windowUs = BigInt(this.#numbers.windowSeconds) * MILLION;
    const amount = BigInt(this.#numbers.amount);
    const index = BigInt(nowUs) / windowUs;
    const elapsedTicks = (BigInt(nowUs) % windowUs) / BigInt(this.#numbers.windowSeconds);
    const slides = this.#numbers.algorithm === Algorithm.slidingWindow;
    // All in millionths: the part of the previous window that is still covered, and the whole of the current one.
    const left = () => {
      const faded = slides ? this.#countOf(index - 1n) * (MILLION - elapsedTicks) : 0n;
      return (amount - this.#countOf(index)) * MILLION - faded;
    };
    let outcome: Outcome = Outcome.room;
    if (mode === Mode.pay || mode === Mode.peek) {
      if (BigInt(cost) > amount) outcome = Outcome.never;
      else if (BigInt(cost) * MILLION > left()) outcome = Outcome.over;
    }
    const charges = mode === Mode.postPaid || (mode === Mode.pay && outcome === Outcome.room);
    if (charges) this.#counts.set(index, leastOf(this.#countOf(index) + BigInt(cost), COUNT_MAX));
    if (mode === Mode.refund) this.#refund(index, BigInt(cost));
    return { outcome, remaining: Number(atLeastZero(left()) / MILLION) };
  }

  #refund(index: bigint, cost: bigint): void {
    const current = this.#countOf(index);
    this.#counts.set(index, atLeastZero(current - cost));
    this.#counts.set(index - 1n, atLeastZero(this.#countOf(index - 1n) - atLeastZero(cost - current)));
  }

  #countOf(index: bigint): bigint {
    return this.#counts.get(index) ?? 0n;
  }
}

/** Sliding log as the list of every payment ever made. */
class LogModel implements Model {
  readonly #numbers: LimitNumbers;
  #payments: { readonly atUs: number; cost: number }[] = [];

  constructor(numbers: LimitNumbers) {
    this.#numbers = numbers;
  }

  take(nowUs: number, cost: number, mode: Mode): ModelAnswer {
    const { amount, windowSeconds } = this.#numbers;
    const counting = () => this.#payments.filter(({ atUs }) => atUs > nowUs - windowSeconds * 1_000_000);
    const used = () => counting().reduce((sum, payment) => sum + payment.cost, 0);
    let outcome: Outcome = Outcome.room;
    if (mode === Mode.pay || mode === Mode.peek) {
      if (cost > amount) outcome = Outcome.never;
      else if (used() + cost > amount) outcome = Outcome.over;
    }
    if (mode === Mode.pay && outcome === Outcome.room) this.#payments.push({ atUs: nowUs, cost });
    if (mode === Mode.postPaid) this.#payments.push({ atUs: nowUs, cost: Math.min(cost, Number(COUNT_MAX) - used()) });
    if (mode === Mode.refund) {
      let left = cost;
      for (const payment of counting().reverse()) {
        const off = Math.min(left, payment.cost);
        payment.cost -= off;
        left -= off;
      }
    }
    return { outcome, remaining: Math.max(0, amount - used()) };
  }
}
