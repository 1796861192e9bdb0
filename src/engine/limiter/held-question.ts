// What a descriptor asks in a domain with holds, or in a call of Budgets: it may also reserve, or settle what was
// reserved. And what the answered takes count then.

import { RequestError } from "../../base/errors.ts";
import type { Limit } from "../domain/limit.ts";
import { type Descriptor, HoldAsk, type LimitRequest, textOf } from "../domain/request.ts";
import { countUnmatched } from "../domain/stats.ts";
import { HoldFound, Mode, Outcome, type Take } from "../domain/take.ts";
import { costOf, unitsUp } from "../rules/cost.ts";
import { holdIdOf, keptId } from "../rules/hold.ts";
import type { CostEntry, DomainRules, HoldEntries, Rule } from "../rules/rule-set.ts";
import { isSettlement } from "../rules/settle-entries.ts";
import type { CallTally, LimitCall } from "./call.ts";
import { Admission, Question } from "./question.ts";

export class HeldQuestion extends Question implements CallTally {
  /** One-byte; empty if nobody can settle the hold. */
  #holdId = "";

  protected override readMode(request: LimitRequest, rules: DomainRules, rule: Rule | undefined): void {
    if (request.holdAsk === HoldAsk.none) this.#readEntries(request, rules, rule);
    else this.#readHoldAsk(request, rules, rule);
  }

  #readEntries(request: LimitRequest, rules: DomainRules, rule: Rule | undefined): void {
    const { descriptor } = this;
    const hold = rule?.hold;
    this.#holdId = hold === undefined ? "" : holdIdOf(descriptor, hold);
    if (isSettlement(descriptor, rules.settleEntries)) {
      // Its call was admitted before, so a settlement asks for no admission.
      this.mode = Mode.settle;
      this.cost = hold === undefined ? 0 : usedOf(request, descriptor, hold);
    } else if (hold === undefined) this.askFor(this.hits, rule?.cost, rules, rule);
    else this.askFor(onlyAsks(descriptor, hold) ? 0 : this.hits, hold.estimate, rules, rule);
  }

  /** Reads the fields of a Budgets call. Entries have no say then. */
  #readHoldAsk(request: LimitRequest, rules: DomainRules, rule: Rule | undefined): void {
    if (rule === undefined) countUnmatched(rules.stats, this.descriptor);
    checkHeld(rule);
    const settles = request.holdAsk === HoldAsk.settle;
    if (!settles) this.admission = Admission.pay;
    this.mode = settles ? Mode.settle : Mode.pay;
    this.cost = heldCost(request, rule?.hold?.estimate);
    this.#holdId = keptId(request.holdId);
  }

  /** A settlement skips limits without holds, a refund skips `concurrent`. */
  override leavesAlone(limit: Limit): boolean {
    if (this.mode === Mode.settle) return limit.holdSeconds === 0;
    return this.mode === Mode.refund && limit.isConcurrent;
  }

  override ask(take: Take): void {
    super.ask(take);
    if (take.limit.isConcurrent) take.cost = 1;
    take.holdId = this.#holdId;
  }

  /** Counts opened holds, and settlements, which are no hits. */
  tally(_call: LimitCall, take: Take): boolean {
    if (take.paid && take.openedHold) take.stats.holdsOpened++;
    if (take.mode !== Mode.settle) return false;
    if (take.outcome !== Outcome.unanswered) countSettlement(take);
    return true;
  }
}

function countSettlement({ stats, limit, held, cost: used }: Take): void {
  if (held === HoldFound.settled) stats.settledAgain++;
  else if (held === HoldFound.none) stats.settledLate++;
  else {
    stats.settlements++;
    if (limit.isConcurrent) return;
    stats.heldUnused += Math.max(0, held - used);
    stats.usedUnheld += Math.max(0, used - held);
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
