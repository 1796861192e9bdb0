// What one descriptor asks of the limits of its rule (in which mode, for which cost, under which hold), and the takes
// that this becomes: one for each limit, with the key of its bucket.

import type { Clock } from "../../base/clock.ts";
import { RequestError } from "../../base/errors.ts";
import type { Limit, OnStoreFailure } from "../domain/limit.ts";
import { Descriptor, HoldAsk, type LimitRequest, textOf } from "../domain/request.ts";
import { countUnmatched, type StatsBook, type ValueStatsBook } from "../domain/stats.ts";
import {
  GLOBAL_DESCRIPTOR,
  GROUP_WEIGHT_MAX,
  HOLD_WEIGHT,
  Kind,
  LOG_WEIGHT,
  Mode,
  type Take,
  type TakeGroup,
} from "../domain/take.ts";
import { costOf, refundOf, unitsUp } from "../rules/cost.ts";
import { holdIdOf, isSettlement, keptId } from "../rules/hold.ts";
import { limitForCall, limitForDescriptor } from "../rules/priority.ts";
import type { CostEntry, DomainRules, HoldEntries, Rule } from "../rules/rule-set.ts";
import type { CallerLimits, LimitCall } from "./call.ts";

/**
 * What a call asks of the global limit: nothing, whether there is room, or a payment. The strongest of its descriptors
 * counts.
 */
export const Admission = { none: 0, peek: 1, pay: 2 } as const;
export type Admission = (typeof Admission)[keyof typeof Admission];

/** Limits that count as the reference service does (engine/counters). */
export interface CounterRoom {
  /** Begins the next call. */
  begin(): void;
  /** Adds the take of a counter, whose key is given without the window. */
  add(group: TakeGroup, question: Question, limit: Limit, key: string): Take;
  /** True if the call is decided without the store. */
  denies(call: LimitCall): boolean;
  /** Hears what the store answered. `nowUs`: when the call began, in microseconds of the process's Clock. */
  learn(group: TakeGroup, nowUs: number): void;
  /** Counts the outcome of a take on a counter for its stats. False for other takes. */
  tally(call: LimitCall, take: Take): boolean;
  /** Sets `call.governing` as the reference service does; to be called after `combine`, whose choice it replaces. */
  govern(call: LimitCall): void;
}

/** What filling a call depends on, apart from its rules. */
export interface FillOptions {
  /** Bounds the time of matching (engine/rules/match.ts). */
  readonly clock: Clock;
  /** SHADOW_MODE: all takes are shadow takes. */
  readonly shadowMode: boolean;
  /** QUOTA_MODE: every descriptor is a quota descriptor; those without a rule pass. */
  readonly quotaMode: boolean;
  /** Failure policy of overrides that match no rule. */
  readonly onStoreFailure: OnStoreFailure;
  readonly retryAfterJitter: number;
  /** Under COMPATIBILITY_MODE. */
  readonly counters?: CounterRoom | undefined;
  readonly statsBook: StatsBook & ValueStatsBook;
  /** Limits at run time. Default: none. */
  readonly runtime?: CallerLimits | undefined;
  /** True for questions of operators: no descriptor and no value is counted. Default: false. */
  readonly countsNothing?: boolean;
}

/**
 * The question of one descriptor at a time: `begin`, then `read` once its rule is known. Everything is valid until the
 * next `begin`.
 */
export class Question {
  readonly #options: FillOptions;
  /** Index of the descriptor in its request. */
  index = 0;
  descriptor = new Descriptor();
  /** The descriptor's hits, else the call's. */
  hits = 1;

  rule: Rule | undefined;
  kind: Kind = Kind.ordinary;
  /**
   * True: a quota descriptor that passes whatever its takes find. The call's other quota descriptors then can't refuse
   * it.
   */
  isSpareQuota = false;
  mode: Mode = Mode.pay;
  cost = 1;
  /** One-byte; empty if nobody can settle the hold. */
  holdId = "";
  admission: Admission = Admission.none;

  constructor(options: FillOptions) {
    this.#options = options;
  }

  /** True for a descriptor that waits for an answer: what is given back, reported or settled was admitted before. */
  get waitsForAdmission(): boolean {
    return this.mode === Mode.pay || this.mode === Mode.peek;
  }

  begin(request: LimitRequest, index: number): void {
    const descriptor = request.descriptors[index] as Descriptor;
    this.index = index;
    this.descriptor = descriptor;
    this.hits = descriptor.hasHits ? descriptor.hits : Math.max(1, request.hitsAddend);
    this.admission = Admission.none;
  }

  /** Reads what the descriptor asks under `rule`. Throws RequestError for a call of Budgets that leads to no hold. */
  read(request: LimitRequest, rules: DomainRules, rule: Rule | undefined): void {
    this.rule = rule;
    this.#readKind(rule);
    if (request.holdAsk === HoldAsk.none) this.#readEntries(request, rules, rule);
    else this.#readHoldAsk(request, rules, rule);
  }

  #readKind(rule: Rule | undefined): void {
    const isShadow = rule?.kind === Kind.shadow;
    const isQuota = this.#options.quotaMode || rule?.isQuota === true;
    this.isSpareQuota = isQuota && (isShadow || (rule?.limits.length === 0 && !this.descriptor.hasOverride));
    this.kind = isShadow || this.#options.shadowMode ? Kind.shadow : isQuota ? Kind.quota : Kind.ordinary;
  }

  #readEntries(request: LimitRequest, rules: DomainRules, rule: Rule | undefined): void {
    const { descriptor } = this;
    const hold = rule?.hold;
    this.holdId = hold === undefined ? "" : holdIdOf(descriptor, hold);
    if (isSettlement(descriptor, rules.settleEntries)) {
      // Its call was admitted before, so a settlement asks for no admission.
      this.mode = Mode.settle;
      this.cost = hold === undefined ? 0 : usedOf(request, descriptor, hold);
      return;
    }
    const isReport = isReported(rule, rules, descriptor);
    const asked = hold !== undefined && onlyAsks(descriptor, hold) ? 0 : this.hits;
    const cost = hold === undefined ? rule?.cost : hold.estimate;
    if (descriptor.isRefund) {
      this.mode = Mode.refund;
      this.cost = refundOf(asked, cost, descriptor);
      return;
    }
    this.cost = costOf(asked, cost, descriptor);
    this.mode = asked === 0 ? Mode.peek : isReport ? Mode.postPaid : Mode.pay;
    // A report comes after the admission of its call; a peek under a post-paid rule is that admission.
    if (isReport) this.admission = asked === 0 ? Admission.pay : Admission.none;
    else this.admission = asked === 0 ? Admission.peek : Admission.pay;
  }

  /** Reads the fields of a Budgets call. Entries have no say then. */
  #readHoldAsk(request: LimitRequest, rules: DomainRules, rule: Rule | undefined): void {
    if (rule === undefined) countUnmatched(rules.stats, this.descriptor);
    checkHeld(rule);
    const settles = request.holdAsk === HoldAsk.settle;
    if (!settles) this.admission = Admission.pay;
    this.mode = settles ? Mode.settle : Mode.pay;
    this.cost = heldCost(request, rule?.hold?.estimate);
    this.holdId = keptId(request.holdId);
  }
}

/**
 * Throws RequestError unless the rule has holds or is unlimited: callers of Budgets must not mistake a limit without
 * holds for one.
 */
export function checkHeld(rule: Rule | undefined): void {
  if (rule?.hold !== undefined || rule?.isUnlimited === true) return;
  const found = rule === undefined ? "no rule limits them" : `the rule ${textOf(rule.path)} has none`;
  throw new RequestError("REQUEST_NOT_HELD", `expected entries of a rule with 'hold', but ${found}`);
}

/** True if the descriptor's hits are charged in any case. Its rule decides that; without a rule, its domain. */
function isReported(rule: Rule | undefined, rules: DomainRules, descriptor: Descriptor): boolean {
  if (rule === undefined) return rules.chargesGivenHits && descriptor.hasHits;
  return rule.isPostPaid || (rule.chargesGivenHits && descriptor.hasHits);
}

/**
 * True for a descriptor with hits of its own but without the value that marks settlements, under a rule that marks by
 * value. It is the report of a call that was refused, or the cost of a request: gateways that mark by value send both
 * alike. It must not open a hold, so it only peeks.
 */
function onlyAsks(descriptor: Descriptor, { settleValue }: HoldEntries): boolean {
  return settleValue !== undefined && descriptor.hasHits && !descriptor.isRefund;
}

/**
 * The use that a settlement reports: the descriptor's hits, else the call's if above 0, else the estimate of its
 * entries.
 */
function usedOf(request: LimitRequest, descriptor: Descriptor, { estimate }: HoldEntries): number {
  if (descriptor.hasHits) return unitsUp(descriptor.hits, estimate);
  return request.hitsAddend > 0 ? unitsUp(request.hitsAddend, estimate) : costOf(1, estimate, descriptor);
}

/** The cost of a Budgets call: the same as of a descriptor whose estimate entry has the same amount. */
function heldCost({ holdAsk, holdAmount }: LimitRequest, estimate: CostEntry | undefined): number {
  if (holdAsk === HoldAsk.settle) return unitsUp(holdAmount, estimate);
  if (holdAmount === 0) return unitsUp(estimate?.default ?? 1, estimate);
  return unitsUp(Math.min(holdAmount, estimate?.max ?? holdAmount), estimate);
}

/** True for a limit that gets no take: a settlement skips limits without holds, a refund skips `concurrent`. */
export function leavesAlone({ mode }: Question, limit: Limit): boolean {
  if (mode === Mode.settle) return limit.holdSeconds === 0;
  return mode === Mode.refund && limit.isConcurrent;
}

/**
 * Adds a take whose key the caller has written to the group's buffer from `keyAt`. `paysReports`: see
 * Rule.chargesGivenHits.
 */
export function addTake(group: TakeGroup, question: Question, limit: Limit, keyAt: number, paysReports: boolean): void {
  const take = group.add(limitForDescriptor(limit, question.descriptor));
  applyQuestion(group, take, question);
  take.mode = question.mode;
  take.cost = limit.isConcurrent ? 1 : question.cost;
  take.holdId = question.holdId;
  take.endKey(keyAt);
  if (paysReports && take.mode === Mode.postPaid) addPayment(group, take);
}

/**
 * Adds the take of the global limit: a call that asks for admission pays it; a call that only peeks peeks at it, too.
 */
export function addGlobal(call: LimitCall, rules: DomainRules, admission: Admission, shadowMode: boolean): void {
  const { globalLimit } = rules;
  if (globalLimit === undefined) return;
  const take: Take = call.group.add(limitForCall(globalLimit.limit, call.request));
  take.useKeyOf(globalLimit.key);
  take.descriptor = GLOBAL_DESCRIPTOR;
  take.kind = shadowMode ? Kind.shadow : Kind.ordinary;
  take.mode = admission === Admission.pay ? Mode.pay : Mode.peek;
  take.cost = globalLimit.countsHits ? Math.max(1, call.request.hitsAddend) : 1;
  call.globalTake = take;
}

/** Writes what all takes of a question have in common. */
export function applyQuestion(group: TakeGroup, take: Take, { index, kind, isSpareQuota }: Question): void {
  take.descriptor = index;
  take.kind = kind;
  if (isSpareQuota) group.hasSpareQuota = true;
}

/** Makes `judge` a peek that decides the call, and adds a post-paid take of the same cost after it. */
function addPayment(group: TakeGroup, judge: Take): void {
  judge.mode = Mode.peek;
  const payment = group.add(judge.limit);
  payment.descriptor = judge.descriptor;
  payment.kind = judge.kind;
  payment.mode = Mode.postPaid;
  payment.cost = judge.cost;
  payment.stats = judge.stats;
  payment.useKeyOf(judge);
}

/** Throws RequestError for a group of more limits than a call may have. */
export function checkWeight({ size, takesOnLogs, takesWithHolds, weight }: TakeGroup): void {
  if (weight <= GROUP_WEIGHT_MAX) return;
  const logs = takesOnLogs === 0 ? "" : `, ${takesOnLogs} of them sliding logs that count ${LOG_WEIGHT} times`;
  const holds = takesWithHolds === 0 ? "" : `, ${takesWithHolds} of them with holds that count ${HOLD_WEIGHT} times`;
  const inAll = weight === size ? "" : `: ${weight}`;
  throw new RequestError(
    "REQUEST_LIMITS_TOO_MANY",
    `expected at most ${GROUP_WEIGHT_MAX} limits for all descriptors and the global one, got ${size}${logs}${holds}${inAll}`,
  );
}
