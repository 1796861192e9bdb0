// The money of a handed-out bucket: pays in small slices ahead for what Envoys may spend, and finds out which rate can
// be handed out while calls that ask pay from the same bucket. Pure steps; a Payer moves the tokens.
//
// At any time `balance` (paid and not spent) covers what may be spent until the next tick. If the bucket refuses a
// payment, the rate that is handed out falls to what was paid lately, and is raised again step by step. What could not
// be taken back in time is charged as debt.

import type { Limit } from "../engine/domain/limit.ts";
import { BURSTS_PER_SECOND_MAX, HELD_PART } from "../engine/rules/hand-out.ts";
import type { HandOut } from "../engine/rules/rule-set.ts";

/** How often a bucket ticks. */
export const TICK_US = 25_000;
/** How often a rate that was reduced for lack of tokens is raised, by a sixteenth of the limit. */
const RAISE_PAUSE_US = 250_000;
const RAISE_PART = 16;
/** At once it is raised to this part of what was paid in the last second. */
const USUAL_PART = 0.9;
export const MICROS = 1_000_000;
/** Tokens per minute x microseconds / this is millionths of a token. */
export const MINUTE_SECONDS = 60;
/** After a store did not answer. */
const AWAY_PAUSE_US = 500_000;
/** Largest rate that Envoy can be told, in tokens per minute. */
const RATE_MAX = 4_000_000_000;

/** What may be handed out of a bucket. */
export interface Terms {
  /** A token bucket. */
  readonly limit: Limit;
  readonly handOut: HandOut;
  /** How many processes hand out at once; Infinity while that is not sure. */
  readonly processes: number;
}

/** Moves tokens between the bucket in the store and what is handed out. */
export interface Payer {
  /** Takes whole tokens from the bucket; `paid`, `refused` or `unanswered` follows, once. */
  pay(bank: Bank, tokens: number): void;
  /** Takes them even if the bucket has none; `owe` follows if the store does not answer. */
  charge(bank: Bank, tokens: number): void;
}

/** Hears of a bank. */
interface BankOwner {
  /** There may be tokens for parts that grow. */
  paid(nowUs: number): void;
  /** Less can be handed out, from now on. */
  lowered(nowUs: number): void;
  /** More can be handed out. */
  raised(): void;
}

export class Bank {
  /** The key of the bucket in the store. */
  readonly key: string;
  terms: Terms;
  /** What all parts may spend, in tokens per minute; and what parts that grow need in addition. */
  heldRate = 0;
  growthRate = 0;
  growthTokens = 0;
  /** The rate that is handed out, in tokens per minute: the limit's, or what calls that ask leave of it. */
  rate: number;
  /** Paid and not spent, in millionths of a token. Below 0 for less than a tick, unless the store is away. */
  balance = 0;
  /** True while the store does not answer. */
  isAway = false;
  readonly #payer: Payer;
  readonly #owner: BankOwner;
  #drainedUs: number;
  /** Tokens asked for; 0: no payment is under way. */
  #asked = 0;
  #isSecondTry = false;
  #paidUs: number;
  #raisedUs = 0;
  #pausedUntilUs = 0;
  /** What was paid, in tokens per minute: in the last two payments, and in about a second. */
  #income = 0;
  #usualIncome = 0;

  constructor(key: string, terms: Terms, payer: Payer, owner: BankOwner, nowUs: number) {
    this.key = key;
    this.terms = terms;
    this.#payer = payer;
    this.#owner = owner;
    this.#drainedUs = nowUs;
    this.#paidUs = nowUs;
    this.rate = this.rateMax;
  }

  /** The most that may be handed out, in tokens per minute. */
  get rateMax(): number {
    const { limit, processes } = this.terms;
    const most = (limit.burst * BURSTS_PER_SECOND_MAX * MINUTE_SECONDS) / processes;
    return Math.floor(Math.min(perMinuteOf(limit), most, RATE_MAX));
  }

  /** Most whole tokens of all parts, and so the most parts that may hold one. */
  get tokensMax(): number {
    return Math.floor(this.terms.limit.burst / HELD_PART / this.terms.processes);
  }

  get isPaying(): boolean {
    return this.#asked > 0;
  }

  setTerms(terms: Terms): void {
    const { rateMax } = this;
    this.terms = terms;
    if (this.rateMax !== rateMax) this.rate = this.rateMax;
  }

  /** Takes what may have been spent since the last step from the balance. */
  drain(nowUs: number): void {
    const us = nowUs - this.#drainedUs;
    if (us <= 0) return;
    this.#drainedUs = nowUs;
    this.balance -= Math.ceil((this.heldRate * us) / MINUTE_SECONDS);
  }

  /** Pays if the balance is low; one payment at a time. */
  pay(nowUs: number): void {
    if (this.#asked > 0 || nowUs < this.#pausedUntilUs) return;
    const need = Math.floor((this.#level - this.balance) / MICROS);
    if (need < 1) return;
    this.#isSecondTry = false;
    this.#ask(need);
  }

  #ask(tokens: number): void {
    this.#asked = tokens;
    this.#payer.pay(this, tokens);
  }

  /** The store has taken what was asked for. `remaining`: whole tokens that the bucket still has. */
  paid(remaining: number, nowUs: number): void {
    const tokens = this.#asked;
    this.#answered(tokens, nowUs);
    this.balance += tokens * MICROS;
    if (this.#isSecondTry) this.#lower(nowUs);
    else if (remaining * 2 >= this.terms.limit.burst) this.#raiseTo(this.rateMax);
    this.#owner.paid(nowUs);
    this.pay(nowUs);
  }

  /** The store has refused; the bucket has `remaining` whole tokens, which are asked for once. */
  refused(remaining: number, nowUs: number): void {
    const asked = this.#asked;
    if (!this.#isSecondTry && remaining > 0) {
      this.#isSecondTry = true;
      this.#ask(Math.min(asked, remaining));
      return;
    }
    this.#answered(0, nowUs);
    this.#lower(nowUs);
  }

  /** The store did not answer. What is spent meanwhile is charged when it does. */
  unanswered(nowUs: number): void {
    this.#asked = 0;
    this.isAway = true;
    this.#pausedUntilUs = nowUs + AWAY_PAUSE_US;
  }

  /** Takes tokens that somebody has spent unpaid. */
  charge(tokens: number): void {
    this.#payer.charge(this, tokens);
  }

  /** A charge got no answer: it is due again. */
  owe(tokens: number): void {
    this.balance -= tokens * MICROS;
  }

  #answered(tokens: number, nowUs: number): void {
    this.#asked = 0;
    this.isAway = false;
    this.drain(nowUs);
    const us = Math.max(TICK_US, nowUs - this.#paidUs);
    this.#paidUs = nowUs;
    const income = (tokens * MINUTE_SECONDS * MICROS) / us;
    this.#income = Math.floor((this.#income + income) / 2);
    this.#usualIncome += (income - this.#usualIncome) * (us / (us + MICROS));
  }

  /** Hands out less if the balance runs out; and charges what is spent without having been paid. */
  #lower(nowUs: number): void {
    if (this.#share < 0.5) {
      this.rate = Math.min(this.rate, this.#income);
      this.#raisedUs = nowUs;
      this.#owner.lowered(nowUs);
    }
    if (this.balance >= -this.#slack) return;
    const tokens = Math.ceil(-this.balance / MICROS);
    this.balance += tokens * MICROS;
    this.charge(tokens);
  }

  /** Hands out more, if it was reduced and the balance is good. */
  raise(nowUs: number): void {
    if (this.rate >= this.rateMax || nowUs - this.#raisedUs < RAISE_PAUSE_US || this.#share < 0.75) return;
    this.#raisedUs = nowUs;
    const step = Math.ceil(this.rateMax / RAISE_PART);
    this.#raiseTo(Math.max(this.rate + step, Math.floor(this.#usualIncome * USUAL_PART)));
  }

  #raiseTo(rate: number): void {
    if (this.rate >= this.rateMax) return;
    this.rate = Math.min(this.rateMax, rate);
    this.#owner.raised();
  }

  /** What may be spent in a tick. */
  get #slack(): number {
    return Math.ceil((this.heldRate * TICK_US) / MINUTE_SECONDS);
  }

  /** What should be banked: a second ahead and what growing parts take, at most an eighth of the burst. */
  get #level(): number {
    const most = Math.floor((this.terms.limit.burst * MICROS) / HELD_PART / this.terms.processes) - this.#slack;
    const wanted = ((this.heldRate + this.growthRate) * MICROS) / MINUTE_SECONDS + this.growthTokens * MICROS;
    return wanted === 0 ? 0 : Math.max(0, Math.min(most, Math.max(wanted, MICROS)));
  }

  /** The part of what should be banked that is. */
  get #share(): number {
    const slack = this.#slack;
    const level = this.#level + slack;
    return level === 0 ? 1 : (this.balance + slack) / level;
  }
}

/** The limit's rate in tokens per minute, rounded down. */
export function perMinuteOf({ amount, windowSeconds }: Limit): number {
  return Math.floor((amount * MINUTE_SECONDS) / windowSeconds);
}
