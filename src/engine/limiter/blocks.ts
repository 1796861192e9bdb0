// Callers that are blocked at run time, and calls without an entry that their domain requires: refusals that no store has to answer.

import { WAIT_US_MAX } from "../domain/limit.ts";
import { HoldAsk } from "../domain/request.ts";
import { Kind, Mode, Outcome, type Take, type TakeGroup } from "../domain/take.ts";
import { writeBaseKey } from "../rules/bucket-key.ts";
import type { DomainRules, Rule } from "../rules/rule-set.ts";
import type { AppliedLimit, LimitCall } from "./call.ts";
import { applyQuestion, type FillOptions, type Question } from "./question.ts";

/** True for a descriptor that waits for an answer: what is given back or reported was admitted before. */
export function waitsForAdmission({ mode }: Question): boolean {
  return mode === Mode.pay || mode === Mode.peek;
}

/** Adds the refusal of a blocked caller, which no store has to answer. `nowUs` is in microseconds of the store's clock. */
export function addBlocked(
  group: TakeGroup,
  rules: DomainRules,
  question: Question,
  { blocked, rule, untilUs }: AppliedLimit,
  nowUs: number,
): void {
  if (blocked === undefined) return;
  const { keys } = group;
  const keyAt = keys.end;
  writeBaseKey(keys, rules, question.descriptor, undefined, rule.hashesValues);
  keys.write(blocked.keySuffix);
  const take = group.add(blocked);
  applyQuestion(group, take, question);
  take.kind = Kind.ordinary;
  take.mode = Mode.blocked;
  take.cost = question.mode === Mode.peek ? 0 : question.cost;
  take.outcome = untilUs === 0 ? Outcome.never : Outcome.over;
  take.waitUs = untilUs === 0 ? 0 : Math.min(WAIT_US_MAX, Math.max(0, untilUs - nowUs));
  take.endKey(keyAt);
}

/** True if calls like this one, which lacks a required entry, are refused. */
export function refusesIncomplete(
  { request }: LimitCall,
  { required }: DomainRules,
  { shadowMode }: Pick<FillOptions, "shadowMode">,
): boolean {
  return required?.refuses === true && !shadowMode && request.holdAsk !== HoldAsk.settle;
}

/** Refuses a descriptor that meets `rule`, and so the call, unless it settles, reports or gives back what was admitted: true then. */
export function refuseIncomplete(
  call: LimitCall,
  rules: DomainRules,
  question: Question,
  rule: Rule | undefined,
): boolean {
  // Reserve is refused whether or not it would lead to a hold.
  if (call.request.holdAsk === HoldAsk.none) {
    question.read(call.request, rules, rule);
    if (!waitsForAdmission(question)) return false;
  }
  call.isBlocked = true;
  call.rules[question.index] = rule;
  return true;
}

/** True if the group has nothing but refusals of blocked callers. */
export function isOnlyBlocked({ takes, size }: TakeGroup): boolean {
  for (let i = 0; i < size; i++) if ((takes[i] as Take).mode !== Mode.blocked) return false;
  return size > 0;
}

/** A call that is refused anyway asks for nothing, and `exempt` may cover the global limit, too. */
export function skipsGlobal({ isBlocked, runtime }: LimitCall): boolean {
  if (isBlocked) return true;
  for (let i = 0; i < runtime.length; i++) if (runtime[i]?.liftsGlobal === true) return true;
  return false;
}
