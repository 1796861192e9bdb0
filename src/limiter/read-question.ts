// What a descriptor asks of its rule's limits: how they are asked, and at what cost. For fill.ts.

import { RequestError } from "../core/errors.ts";
import { type Descriptor, HoldAsk, type LimitRequest, textOf } from "../core/request.ts";
import { Mode } from "../core/take.ts";
import { costOf, refundOf, unitsUp } from "../rules/cost.ts";
import type { CostEntry, DomainRules, HoldEntries, Rule } from "../rules/rule-set.ts";

/** True if the descriptor's hits are charged in any case. Where it leads to no rule its domain says so. */
export function isReported(rule: Rule | undefined, rules: DomainRules, descriptor: Descriptor): boolean {
  if (rule === undefined) return rules.chargesGivenHits && descriptor.hasHits;
  return rule.isPostPaid || (rule.chargesGivenHits && descriptor.hasHits);
}

export function modeOf(descriptor: Descriptor, hits: number, isReport: boolean): Mode {
  if (descriptor.isRefund) return Mode.refund;
  if (hits === 0) return Mode.peek;
  return isReport ? Mode.postPaid : Mode.pay;
}

export function takenCost(descriptor: Descriptor, hits: number, cost: CostEntry | undefined): number {
  return descriptor.isRefund ? refundOf(hits, cost, descriptor) : costOf(hits, cost, descriptor);
}

/**
 * True for what has a number and lacks the value that marks settlements: a report of a call that was not let through, or the
 * cost of a request, which the gateways that mark by values send alike. Neither may hold anything.
 */
export function onlyAsks(descriptor: Descriptor, { settleValue }: HoldEntries): boolean {
  return settleValue !== undefined && descriptor.hasHits && !descriptor.isRefund;
}

/** What a settlement reports. Without a number, or with a call's 0, which says none, what was held stays paid. */
export function usedOf(request: LimitRequest, descriptor: Descriptor, { estimate }: HoldEntries): number {
  if (descriptor.hasHits) return unitsUp(descriptor.hits, estimate);
  return request.hitsAddend > 0 ? unitsUp(request.hitsAddend, estimate) : costOf(1, estimate, descriptor);
}

/** What the request's fields say of a hold costs: as much as an entry that says the same. */
export function heldCost({ holdAsk, holdAmount }: LimitRequest, estimate: CostEntry | undefined): number {
  if (holdAsk === HoldAsk.settle) return unitsUp(holdAmount, estimate);
  if (holdAmount === 0) return unitsUp(estimate?.default ?? 1, estimate);
  return unitsUp(Math.min(holdAmount, estimate?.max ?? holdAmount), estimate);
}

/** Throws RequestError unless the rule has holds, or lets all pass: who reserves must not take a limit without holds for one. */
export function checkHeld(rule: Rule | undefined): void {
  if (rule?.hold !== undefined || rule?.isUnlimited === true) return;
  const found = rule === undefined ? "no rule limits them" : `the rule ${textOf(rule.path)} has none`;
  throw new RequestError("REQUEST_NOT_HELD", `expected entries of a rule with 'hold', but ${found}`);
}
