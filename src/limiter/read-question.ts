// Reads the mode and the cost with which a descriptor asks the limits of its rule. For fill.ts.

import { RequestError } from "../core/errors.ts";
import { type Descriptor, HoldAsk, type LimitRequest, textOf } from "../core/request.ts";
import { Mode } from "../core/take.ts";
import { costOf, refundOf, unitsUp } from "../rules/cost.ts";
import type { CostEntry, DomainRules, HoldEntries, Rule } from "../rules/rule-set.ts";

/** True if the descriptor's hits are charged in any case. Its rule decides that; without a rule, its domain. */
export function isReported(rule: Rule | undefined, rules: DomainRules, descriptor: Descriptor): boolean {
  if (rule === undefined) return rules.chargesGivenHits && descriptor.hasHits;
  return rule.isPostPaid || (rule.chargesGivenHits && descriptor.hasHits);
}

/** The mode of the descriptor's takes. `isReport`: its hits are charged in any case. */
export function modeOf(descriptor: Descriptor, hits: number, isReport: boolean): Mode {
  if (descriptor.isRefund) return Mode.refund;
  if (hits === 0) return Mode.peek;
  return isReport ? Mode.postPaid : Mode.pay;
}

/** The cost of the descriptor's takes, or what its refund gives back. */
export function takenCost(descriptor: Descriptor, hits: number, cost: CostEntry | undefined): number {
  return descriptor.isRefund ? refundOf(hits, cost, descriptor) : costOf(hits, cost, descriptor);
}

/**
 * True for a descriptor with hits of its own but without the value that marks settlements, under a rule that marks by value. It is
 * the report of a call that was refused, or the cost of a request: gateways that mark by value send both alike. It must not open a
 * hold, so it only peeks.
 */
export function onlyAsks(descriptor: Descriptor, { settleValue }: HoldEntries): boolean {
  return settleValue !== undefined && descriptor.hasHits && !descriptor.isRefund;
}

/** The use that a settlement reports: the descriptor's hits, else the call's if above 0, else the estimate of its entries. */
export function usedOf(request: LimitRequest, descriptor: Descriptor, { estimate }: HoldEntries): number {
  if (descriptor.hasHits) return unitsUp(descriptor.hits, estimate);
  return request.hitsAddend > 0 ? unitsUp(request.hitsAddend, estimate) : costOf(1, estimate, descriptor);
}

/** The cost of a Budgets call: equal to that of a descriptor whose estimate entry has the same amount. */
export function heldCost({ holdAsk, holdAmount }: LimitRequest, estimate: CostEntry | undefined): number {
  if (holdAsk === HoldAsk.settle) return unitsUp(holdAmount, estimate);
  if (holdAmount === 0) return unitsUp(estimate?.default ?? 1, estimate);
  return unitsUp(Math.min(holdAmount, estimate?.max ?? holdAmount), estimate);
}

/** Throws RequestError unless the rule has holds or is unlimited: callers of Budgets must not mistake a limit without holds for one. */
export function checkHeld(rule: Rule | undefined): void {
  if (rule?.hold !== undefined || rule?.isUnlimited === true) return;
  const found = rule === undefined ? "no rule limits them" : `the rule ${textOf(rule.path)} has none`;
  throw new RequestError("REQUEST_NOT_HELD", `expected entries of a rule with 'hold', but ${found}`);
}
