// What one descriptor asks of the limits of its rule (in which mode, for which cost), and the takes that this becomes:
// one for each limit, with the key of its bucket.

import type { Clock } from "../../base/clock.ts";
import { RequestError } from "../../base/errors.ts";
import type { Limit, OnStoreFailure } from "../domain/limit.ts";
import { Descriptor, type LimitRequest } from "../domain/request.ts";
import type { StatsBook, ValueStatsBook } from "../domain/stats.ts";
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
import { costOf, refundOf } from "../rules/cost.ts";
import { hidesValues } from "../rules/match.ts";
import { limitForCall, limitForDescriptor } from "../rules/priority.ts";
import type { CostEntry, DomainRules, Rule } from "../rules/rule-set.ts";
import type { CallerLimits, CallTally, LimitCall } from "./call.ts";
import { guaranteedCaller, payByPriority } from "./guarantee.ts";

/**
 * What a call asks of the global limit: nothing, whether there is room, or a payment. The strongest of its descriptors
 * counts.
 */
export const Admission = { none: 0, peek: 1, pay: 2 } as const;
export type Admission = (typeof Admission)[keyof typeof Admission];

/** Limits that count as the reference service does (engine/counters). */
export interface CounterRoom extends CallTally {
  /** Begins the next call. */
  begin(): void;
  /** Adds the take of a counter, whose key is given without the window. */
  add(group: TakeGroup, question: Question, limit: Limit, key: string): Take;
  /** True if the call is decided without the store. */
  denies(call: LimitCall): boolean;
  /** Hears what the store answered. `nowUs`: when the call began, in microseconds of the process's Clock. */
  learn(group: TakeGroup, nowUs: number): void;
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

  /**
   * Reads what the descriptor asks under `rule`. Throws RequestError for a call that asks what the rule does not have.
   */
  read(request: LimitRequest, rules: DomainRules, rule: Rule | undefined): void {
    this.rule = rule;
    this.#readKind(rule);
    this.readMode(request, rules, rule);
  }

  #readKind(rule: Rule | undefined): void {
    const isShadow = rule?.kind === Kind.shadow;
    const isQuota = this.#options.quotaMode || rule?.isQuota === true;
    this.isSpareQuota = isQuota && (isShadow || (rule?.limits.length === 0 && !this.descriptor.hasOverride));
    this.kind = isShadow || this.#options.shadowMode ? Kind.shadow : isQuota ? Kind.quota : Kind.ordinary;
  }

  /** Reads `mode`, `cost` and `admission`. */
  protected readMode(_request: LimitRequest, rules: DomainRules, rule: Rule | undefined): void {
    this.askFor(this.hits, rule?.cost, rules, rule);
  }

  /** Asks for so many hits, or whether there is room if it is 0. */
  protected askFor(hits: number, cost: CostEntry | undefined, rules: DomainRules, rule: Rule | undefined): void {
    const { descriptor } = this;
    if (descriptor.isRefund) {
      this.mode = Mode.refund;
      this.cost = refundOf(hits, cost, descriptor);
      return;
    }
    const isReport = isReported(rule, rules, descriptor);
    this.cost = costOf(hits, cost, descriptor);
    this.mode = hits === 0 ? Mode.peek : isReport ? Mode.postPaid : Mode.pay;
    // A report comes after the admission of its call; a peek under a post-paid rule is that admission.
    if (isReport) this.admission = hits === 0 ? Admission.pay : Admission.none;
    else this.admission = hits === 0 ? Admission.peek : Admission.pay;
  }

  /** True for a limit that gets no take. */
  leavesAlone(_limit: Limit): boolean {
    return false;
  }

  /** Writes what is asked of the take's limit. */
  ask(take: Take): void {
    take.mode = this.mode;
    take.cost = this.cost;
  }
}

/** True if the descriptor's hits are charged in any case. Its rule decides that; without a rule, its domain. */
function isReported(rule: Rule | undefined, rules: DomainRules, descriptor: Descriptor): boolean {
  if (rule === undefined) return rules.chargesGivenHits && descriptor.hasHits;
  return rule.isPostPaid || (rule.chargesGivenHits && descriptor.hasHits);
}

/**
 * Adds a take whose key the caller has written to the group's buffer from `keyAt`. `paysReports`: see
 * Rule.chargesGivenHits.
 */
export function addTake(group: TakeGroup, question: Question, limit: Limit, keyAt: number, paysReports: boolean): void {
  const take = group.add(limit);
  applyQuestion(group, take, question);
  question.ask(take);
  take.endKey(keyAt);
  if (limit.priority !== undefined) {
    const { descriptor, rule } = question;
    payByPriority(group, take, limitForDescriptor(limit, descriptor), descriptor, rule?.hashesValues === true);
  }
  if (paysReports && take.mode === Mode.postPaid) addPayment(group, take);
}

/**
 * Adds the take of the global limit: a call that asks for admission pays it; a call that only peeks peeks at it, too.
 */
export function addGlobal(call: LimitCall, rules: DomainRules, admission: Admission, shadowMode: boolean): void {
  const { globalLimit } = rules;
  if (globalLimit === undefined) return;
  const { limit } = globalLimit;
  const take: Take = call.group.add(limit);
  take.useKeyOf(globalLimit.key);
  take.descriptor = GLOBAL_DESCRIPTOR;
  take.kind = shadowMode ? Kind.shadow : Kind.ordinary;
  take.mode = admission === Admission.pay ? Mode.pay : Mode.peek;
  take.cost = globalLimit.countsHits ? Math.max(1, call.request.hitsAddend) : 1;
  call.globalTake = take;
  if (limit.priority === undefined) return;
  const caller = guaranteedCaller(limit, call.request);
  const hidesCaller = caller !== undefined && hidesValues(rules, caller);
  payByPriority(call.group, take, limitForCall(limit, call.request), caller, hidesCaller);
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
