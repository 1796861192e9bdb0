// A bucket that is handed out: pure steps over its parts. A step takes a report, a tick or the answer of a payment, and
// tells its Outlet what to pay and whom to tell.
//
// Envoys together never spend more than was paid: the bank pays for their rates ahead, and each whole token that a part
// holds was paid when it was given. What is held and what is banked are at most an eighth of the burst each. So all
// that passes in a time t, with calls that ask, is at most 1.25 x burst + rate x t.
//
// Parts are reduced first, and stay paid until their stream must have read that (SETTLE_US) or until Envoy drops it;
// only then others grow.

import { Bank, MICROS, MINUTE_SECONDS, type Payer, perMinuteOf, type Terms } from "./bank.ts";
import { divideRate, divideTokens } from "./division.ts";
import type { EnvoyPart } from "./part.ts";

/** A stream that reads has applied what it was sent after this time. */
export const SETTLE_US = 50_000;
/** How long Envoy keeps what it was told: three of its reports. */
export const TTL_SECONDS = 15;
export const TTL_US = TTL_SECONDS * MICROS;
/** This long before its end, a part's time to live is not relied on. */
const TTL_MARGIN_US = 1_000_000;
/** Envoy reports every 5 s. A part that has not reported for so long gets no more. */
export const SILENT_US = 12_000_000;
/** Parts are divided at most so often, for each hundred of them. */
const DIVIDE_PAUSE_US = 50_000;
/** Changes below this part of the limit are not worth a message. */
const NOTICEABLE_PART = 100;

/** Does what a step asks for. */
export interface Outlet extends Payer {
  /** Tells Envoy what its part is. */
  assign(part: EnvoyPart): void;
  /** Tells Envoy to forget the bucket. */
  abandon(part: EnvoyPart): void;
  /** Hears that the part is no longer among `parts`. */
  dropped(part: EnvoyPart): void;
}

export class HandedBucket {
  readonly parts = new Set<EnvoyPart>();
  readonly bank: Bank;
  readonly #outlet: Outlet;
  /** Whole tokens that parts may have. */
  heldTokens = 0;
  /** When something is to be settled next. */
  #dueUs = Number.POSITIVE_INFINITY;
  #isDirty = true;
  #mayGrow = false;
  #dividedUs = Number.NEGATIVE_INFINITY;

  constructor(key: string, terms: Terms, outlet: Outlet, nowUs: number) {
    this.#outlet = outlet;
    this.bank = new Bank(key, terms, outlet, this, nowUs);
  }

  setTerms(terms: Terms): void {
    this.bank.setTerms(terms);
    this.#isDirty = true;
  }

  paid(nowUs: number): void {
    if (this.#mayGrow || this.bank.growthRate > 0) this.#grow(nowUs);
  }

  lowered(nowUs: number): void {
    this.#divide(nowUs);
  }

  raised(): void {
    this.#isDirty = true;
  }

  /** Divides with the next tick, at once if that was not done lately. */
  touch(): void {
    this.#isDirty = true;
  }

  add(part: EnvoyPart): void {
    this.parts.add(part);
    this.#isDirty = true;
  }

  /** Notes that Envoy is told nothing any more: its part stays paid until it must have dropped it. */
  orphan(part: EnvoyPart, nowUs: number): void {
    this.bank.drain(nowUs);
    part.isOrphan = true;
    part.settlesUs = Math.max(part.settlesUs, part.expiresUs);
    part.rate = 0;
    part.tokens = 0;
    this.#settleAt(part.settlesUs);
    this.#isDirty = true;
  }

  #settleAt(atUs: number): void {
    if (atUs < this.#dueUs) this.#dueUs = atUs;
  }

  /** The stream reads again: what it was sent applies soon. */
  read(part: EnvoyPart, nowUs: number): void {
    if (part.settlesUs > nowUs + SETTLE_US && !part.isOrphan) part.settlesUs = nowUs + SETTLE_US;
    this.#settleAt(part.settlesUs);
    this.#mayGrow = true;
  }

  /** Tells Envoy to forget the bucket; what it has stays paid until it must have read that. */
  abandon(part: EnvoyPart, nowUs: number): void {
    this.orphan(part, nowUs);
    if (!part.owner.isBehind) part.settlesUs = Math.min(part.settlesUs, nowUs + SETTLE_US);
    this.#settleAt(part.settlesUs);
    this.#outlet.abandon(part);
  }

  /**
   * Takes over the part of a closed stream, for an Envoy that comes back. The smallest one: if it was another's, more
   * stays paid than is spent. An Envoy that let nothing pass may have had nothing, so it takes over nothing if a stream
   * left that.
   */
  adopt(part: EnvoyPart, hasPassed: boolean): boolean {
    let smallest: EnvoyPart | undefined;
    for (const each of this.parts) {
      if (!each.isOrphan || (hasPassed && each.heldRate === 0)) continue;
      if (smallest === undefined || each.heldRate < smallest.heldRate) smallest = each;
    }
    if (smallest === undefined) return false;
    part.strategy = smallest.strategy;
    part.rate = smallest.heldRate;
    part.tokens = smallest.heldTokens;
    part.heldRate = smallest.heldRate;
    part.heldTokens = smallest.heldTokens;
    part.expiresUs = smallest.expiresUs;
    part.unreported = smallest.unreported;
    part.accruedUs = smallest.accruedUs;
    part.demand = smallest.demand;
    part.isHungry = smallest.isHungry;
    this.#drop(smallest);
    this.#isDirty = true;
    return true;
  }

  /**
   * Notes what an Envoy has done since its last report, and prolongs what it has. `spent` is what passed; of that, what
   * was not paid is charged.
   */
  report(part: EnvoyPart, spent: number, refused: number, isFirst: boolean, nowUs: number): void {
    this.bank.drain(nowUs);
    const us = Math.max(MICROS, nowUs - part.reportedUs);
    if (!isFirst) {
      const demand = Math.round(((spent + refused) * MINUTE_SECONDS * MICROS) / us);
      if (demand !== part.demand || refused > 0 !== part.isHungry) this.#isDirty = true;
      part.demand = demand;
      part.isHungry = refused > 0;
    }
    this.#chargeUnpaid(part, spent, us, nowUs);
    part.reportedUs = nowUs;
    if (spent + refused > 0) part.usedUs = nowUs;
    if (nowUs - part.usedUs >= this.bank.terms.handOut.idleSeconds * MICROS) {
      this.abandon(part, nowUs);
      return;
    }
    if (this.bank.isAway || part.owner.isBehind) return;
    // What is about to expire, or has, starts again full.
    if (part.rate > 0 && nowUs > part.expiresUs - TTL_MARGIN_US) this.#letExpire(part);
    this.#tell(part, nowUs);
  }

  /** Charges what has passed beyond what the part could have spent, by what was paid for it. */
  #chargeUnpaid(part: EnvoyPart, spent: number, us: number, nowUs: number): void {
    accrue(part, nowUs);
    const { limit } = this.bank.terms;
    // No Envoy spends more in the life of what it was told, whatever it reports.
    const believed = Math.min(spent, limit.burst + Math.ceil((perMinuteOf(limit) * TTL_SECONDS) / MINUTE_SECONDS));
    part.unreported -= believed * MICROS;
    if (part.mode === "allow") part.unreported = 0;
    // The report may be older than it seems, so what was paid since the one before counts once more.
    const most = part.heldTokens * MICROS + Math.ceil((part.heldRate * us) / MINUTE_SECONDS);
    part.unreported = Math.min(part.unreported, most);
    if (part.unreported > -MICROS) return;
    const unpaid = Math.floor(-part.unreported / MICROS);
    part.unreported += unpaid * MICROS;
    this.bank.charge(unpaid);
  }

  tick(nowUs: number): void {
    this.bank.drain(nowUs);
    if (nowUs >= this.#dueUs) this.#settle(nowUs);
    this.bank.raise(nowUs);
    const pause = DIVIDE_PAUSE_US * Math.max(1, this.parts.size / 100);
    if (this.#isDirty && nowUs - this.#dividedUs >= pause) this.#divide(nowUs);
    if (this.#mayGrow) this.#grow(nowUs);
    this.bank.pay(nowUs);
  }

  #settle(nowUs: number): void {
    this.#dueUs = Number.POSITIVE_INFINITY;
    for (const part of this.parts) {
      if (!part.isOrphan && part.rate > 0) {
        if (nowUs < part.expiresUs) this.#settleAt(part.expiresUs);
        else this.#letExpire(part);
      }
      const isSettled = part.heldRate === part.rate && part.heldTokens === part.tokens && !part.isOrphan;
      if (isSettled) continue;
      if (nowUs < part.settlesUs) {
        this.#settleAt(part.settlesUs);
        continue;
      }
      this.#hold(part, part.rate, part.tokens, nowUs);
      if (part.isOrphan) this.#drop(part);
      this.#isDirty = true;
      this.#mayGrow = true;
    }
  }

  #drop(part: EnvoyPart): void {
    this.parts.delete(part);
    this.#outlet.dropped(part);
  }

  #hold(part: EnvoyPart, rate: number, tokens: number, nowUs: number): void {
    accrue(part, nowUs);
    part.unreported += Math.max(0, tokens - part.heldTokens) * MICROS;
    this.bank.heldRate += rate - part.heldRate;
    this.heldTokens += tokens - part.heldTokens;
    part.heldRate = rate;
    part.heldTokens = tokens;
  }

  #letExpire(part: EnvoyPart): void {
    part.strategy = "deny";
    part.rate = 0;
    part.tokens = 0;
    part.settlesUs = part.expiresUs;
    this.#settleAt(part.settlesUs);
    this.#isDirty = true;
  }

  #divide(nowUs: number): void {
    this.#isDirty = false;
    this.#mayGrow = true;
    this.#dividedUs = nowUs;
    const live = [...this.parts].filter((part) => !part.isOrphan && nowUs - part.reportedUs <= SILENT_US);
    const holders = this.#holders(live.filter(({ mode }) => mode === "bucket"));
    let orphaned = 0;
    for (const part of this.parts) if (part.isOrphan) orphaned += part.heldRate;
    const floor = this.#floor;
    const budget = Math.max(this.bank.rate - orphaned, this.#floors(holders.length));
    const rates = divideRate(budget, floor, holders);
    const tokens = divideTokens(this.bank.tokensMax, rates);
    for (const part of live) {
      part.targetRate = 0;
      part.targetTokens = 0;
      part.isLeftOut = part.mode === "bucket";
    }
    let kept = 0;
    holders.forEach((part, i) => {
      part.isLeftOut = false;
      part.targetRate = rates[i] as number;
      part.targetTokens = part.targetRate === 0 ? 0 : (tokens[i] as number);
      kept += Math.max(part.rate, part.targetRate);
    });
    for (const part of live) this.#reduce(part, kept > budget, nowUs);
  }

  /** The parts that may hold a token: those that do and use it, then those that want one, in the order of arrival. */
  #holders(parts: readonly EnvoyPart[]): readonly EnvoyPart[] {
    const { tokensMax } = this.bank;
    if (parts.length <= tokensMax) return parts;
    const rank = (part: EnvoyPart) => (part.demand === 0 ? 2 : part.tokens > 0 ? 0 : 1);
    return [...parts].sort((a, b) => rank(a) - rank(b)).slice(0, tokensMax);
  }

  /** `isStrict`: the others need every token of the difference. */
  #reduce(part: EnvoyPart, isStrict: boolean, nowUs: number): void {
    const less = part.rate - part.targetRate;
    const isLess = less > (isStrict ? 0 : this.bank.rateMax / NOTICEABLE_PART);
    if (!isLess && part.targetTokens >= part.tokens && (part.rate > 0 || part.strategy === part.blanket)) return;
    part.rate = Math.min(part.rate, part.targetRate);
    part.tokens = Math.min(part.tokens, part.targetTokens);
    if (part.rate === 0 || part.tokens === 0) {
      part.rate = 0;
      part.tokens = 0;
      part.strategy = part.blanket;
    }
    part.settlesUs = part.owner.isBehind ? part.expiresUs : nowUs + SETTLE_US;
    this.#settleAt(part.settlesUs);
    this.#tell(part, nowUs);
  }

  /** Gives parts more, as far as rate and tokens are free and paid. */
  #grow(nowUs: number): void {
    this.bank.growthRate = 0;
    this.bank.growthTokens = 0;
    if (this.bank.isAway) return;
    this.#mayGrow = false;
    const noticeable = this.bank.rateMax / NOTICEABLE_PART;
    let freeRate = Math.max(this.bank.rate, this.#floors(this.parts.size)) - this.bank.heldRate;
    let freeTokens = this.bank.tokensMax - this.heldTokens;
    for (const part of this.parts) {
      if (part.isOrphan || part.owner.isBehind || part.targetTokens === 0) continue;
      const moreRate = Math.min(part.targetRate - part.heldRate, freeRate);
      const moreTokens = Math.max(0, Math.min(part.targetTokens - part.heldTokens, freeTokens));
      const isNoticeable = moreRate > noticeable || (part.rate === 0 && moreRate > 0);
      if (!isNoticeable || part.heldTokens + moreTokens === 0) continue;
      if (this.bank.balance < moreTokens * MICROS) {
        this.bank.growthRate += moreRate;
        this.bank.growthTokens += moreTokens;
        continue;
      }
      freeRate -= moreRate;
      freeTokens -= moreTokens;
      this.bank.balance -= moreTokens * MICROS;
      this.#hold(part, part.heldRate + moreRate, part.heldTokens + moreTokens, nowUs);
      part.rate = part.heldRate;
      part.tokens = part.heldTokens;
      this.#tell(part, nowUs);
      this.#settleAt(part.expiresUs);
    }
  }

  get #floor(): number {
    return Math.floor((this.bank.rateMax * this.bank.terms.handOut.floorPercent) / 100);
  }

  /** What so many parts have at least, whatever others take. */
  #floors(parts: number): number {
    return Math.min(this.#floor * Math.min(parts, this.bank.tokensMax), Math.floor(this.bank.rateMax / 2));
  }

  /** Called before the outlet sends: `expiresUs` is later than what Envoy does. */
  #tell(part: EnvoyPart, nowUs: number): void {
    if (part.rate > 0) part.strategy = "bucket";
    if (!part.owner.isBehind) part.expiresUs = nowUs + TTL_US;
    this.#outlet.assign(part);
  }
}

/** Adds to what the part may have spent. */
function accrue(part: EnvoyPart, nowUs: number): void {
  part.unreported += Math.ceil((part.heldRate * Math.max(0, nowUs - part.accruedUs)) / MINUTE_SECONDS);
  part.accruedUs = nowUs;
}
