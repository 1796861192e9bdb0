// Calls that are refused before any limit is asked: a caller is blocked at run time, or an entry is missing that their
// domain requires. They pay nothing, but what they settle, report or give back is kept, because it was admitted before.

import { type Limit, WAIT_US_MAX } from "../domain/limit.ts";
import { type Descriptor, HoldAsk } from "../domain/request.ts";
import { Kind, Mode, Outcome } from "../domain/take.ts";
import { writeBaseKey } from "../rules/bucket-key.ts";
import { findRule, type MatchWork } from "../rules/match.ts";
import { missingEntry } from "../rules/required.ts";
import type { DomainRules, Rule } from "../rules/rule-set.ts";
import type { AppliedLimit, CallerLimits, LimitCall } from "./call.ts";
import { applyQuestion, type FillOptions, type Question } from "./question.ts";

/** The rule of each entry of the descriptor that is looked at. */
const MATCHED: Rule[] = [];

/** Sets `missing` and `refusal` of a call. `runtime`: undefined if no descriptor has a limit at run time. */
export function findRefusal(
  call: LimitCall,
  rules: DomainRules,
  runtime: CallerLimits | undefined,
  question: Question,
  work: MatchWork,
  { shadowMode, countsNothing }: FillOptions,
): void {
  const { request } = call;
  const { required, stats } = rules;
  // Operators ask about buckets, which blocked callers and incomplete calls have, too.
  if (countsNothing === true) return;
  if (required !== undefined) call.missing = missingEntry(required, request);
  if (call.missing !== undefined) stats.incomplete++;
  const refusesMissing =
    call.missing !== undefined && required?.refuses === true && !shadowMode && request.holdAsk !== HoldAsk.settle;
  if (refusesMissing && request.holdAsk === HoldAsk.reserve) call.refusal = "incomplete";
  for (let i = 0; i < request.descriptorCount && call.refusal === undefined; i++) {
    if (!refusesMissing && runtime?.mayBlock(i) !== true) continue;
    const rule = findRule(rules, request.descriptors[i] as Descriptor, MATCHED, work);
    const isBlocked = rule !== undefined && runtime?.of(i, rule)?.blocked !== undefined;
    if (!refusesMissing && !isBlocked) continue;
    question.begin(request, i);
    question.read(request, rules, rule);
    if (question.waitsForAdmission) call.refusal = refusesMissing ? "incomplete" : "blocked";
  }
}

/**
 * Adds the refusals of blocked callers if nothing else is asked: no store has to answer them, and stores can't be asked
 * about them.
 */
export function addBlocks(call: LimitCall, rules: DomainRules, question: Question, nowUs: number): void {
  const { request, group, runtime } = call;
  if (group.size > 0) return;
  for (let i = 0; i < request.descriptorCount; i++) {
    call.firstTakes[i] = group.size;
    const applied = runtime[i];
    if (applied?.blocked === undefined) continue;
    question.begin(request, i);
    question.read(request, rules, applied.rule);
    if (question.waitsForAdmission) addBlock(call, rules, question, applied.blocked, applied, nowUs);
  }
  call.firstTakes[request.descriptorCount] = group.size;
}

function addBlock(
  { group }: LimitCall,
  rules: DomainRules,
  question: Question,
  blocked: Limit,
  { rule, untilUs }: AppliedLimit,
  nowUs: number,
): void {
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

/** `exempt` may cover the global limit, too. */
export function liftsGlobal({ runtime }: LimitCall): boolean {
  for (let i = 0; i < runtime.length; i++) if (runtime[i]?.liftsGlobal === true) return true;
  return false;
}
