// What one descriptor asks of the limits of its rule: in which mode, for which cost, under which hold.

import { RequestError } from "../base/errors.ts";
import { Descriptor, HoldAsk, type LimitRequest, textOf } from "../domain/request.ts";
import { Kind, Mode } from "../domain/take.ts";
import { countUnmatched } from "../domain/unmatched-stats.ts";
import { costOf, refundOf, unitsUp } from "../rules/cost.ts";
import { holdIdOf, isSettlement, keptId } from "../rules/hold.ts";
import type { CostEntry, DomainRules, HoldEntries, Rule } from "../rules/rule-set.ts";

/** What a call asks of the global limit: nothing, whether there is room, or a payment. The strongest of its descriptors counts. */
export const Admission = { none: 0, peek: 1, pay: 2 } as const;
export type Admission = (typeof Admission)[keyof typeof Admission];

/** Modes of the service that the questions belong to. */
interface QuestionOptions {
  /** SHADOW_MODE: all takes are shadow takes. */
  readonly shadowMode: boolean;
  /** QUOTA_MODE: every descriptor is a quota descriptor; those without a rule pass. */
  readonly quotaMode: boolean;
}

/** The question of one descriptor at a time: `begin`, then `read` once its rule is known. Everything is valid until the next `begin`. */
export class Question {
  readonly #options: QuestionOptions;
  /** Index of the descriptor in its request. */
  index = 0;
  descriptor = new Descriptor();
  /** The descriptor's hits, else the call's. */
  hits = 1;

  rule: Rule | undefined;
  kind: Kind = Kind.ordinary;
  /** True: a quota descriptor that passes whatever its takes find. The call's other quota descriptors then can't refuse it. */
  isSpareQuota = false;
  mode: Mode = Mode.pay;
  cost = 1;
  /** One-byte; empty if nobody can settle the hold. */
  holdId = "";
  admission: Admission = Admission.none;

  constructor(options: QuestionOptions) {
    this.#options = options;
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
    this.isSpareQuota = isQuota && (isShadow || rule?.limits.length === 0);
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
    if (rule === undefined) countUnmatched(rules.unmatched, this.descriptor);
    checkHeld(rule);
    const settles = request.holdAsk === HoldAsk.settle;
    if (!settles) this.admission = Admission.pay;
    this.mode = settles ? Mode.settle : Mode.pay;
    this.cost = heldCost(request, rule?.hold?.estimate);
    this.holdId = keptId(request.holdId);
  }
}

/** Throws RequestError unless the rule has holds or is unlimited: callers of Budgets must not mistake a limit without holds for one. */
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
 * True for a descriptor with hits of its own but without the value that marks settlements, under a rule that marks by value. It is
 * the report of a call that was refused, or the cost of a request: gateways that mark by value send both alike. It must not open a
 * hold, so it only peeks.
 */
function onlyAsks(descriptor: Descriptor, { settleValue }: HoldEntries): boolean {
  return settleValue !== undefined && descriptor.hasHits && !descriptor.isRefund;
}

/** The use that a settlement reports: the descriptor's hits, else the call's if above 0, else the estimate of its entries. */
function usedOf(request: LimitRequest, descriptor: Descriptor, { estimate }: HoldEntries): number {
  if (descriptor.hasHits) return unitsUp(descriptor.hits, estimate);
  return request.hitsAddend > 0 ? unitsUp(request.hitsAddend, estimate) : costOf(1, estimate, descriptor);
}

/** The cost of a Budgets call: equal to that of a descriptor whose estimate entry has the same amount. */
function heldCost({ holdAsk, holdAmount }: LimitRequest, estimate: CostEntry | undefined): number {
  if (holdAsk === HoldAsk.settle) return unitsUp(holdAmount, estimate);
  if (holdAmount === 0) return unitsUp(estimate?.default ?? 1, estimate);
  return unitsUp(Math.min(holdAmount, estimate?.max ?? holdAmount), estimate);
}
