// Adds a settled call to the stats of its rules, in hits, with the reference service's meanings.

import { divideDown } from "../base/units.ts";
import { OnStoreFailure } from "../domain/limit.ts";
import { HoldFound, isOfCounter, Kind, Mode, Outcome, Source, type Take, type TakeGroup } from "../domain/take.ts";
import { canRefuseCall, isOver } from "../domain/verdict.ts";
import type { LimitCall } from "./call.ts";
import { countCounterHits } from "./counters.ts";

/** Counts hits before the store is asked, so that they are counted even if the store fails. */
export function countHits(call: LimitCall): void {
  for (let i = 0; i < call.group.size; i++) {
    const take = call.group.takes[i] as Take;
    if (take.mode === Mode.pay || take.mode === Mode.postPaid || take.mode === Mode.charge)
      take.stats.totalHits += take.cost;
    else if (take.mode === Mode.peek && !isJudge(call, i)) take.limit.stats.peeks++;
  }
}

/** Counts the results of the takes. A limit is near if more than the part `nearLimitRatio` (0 to 1) of it is used. */
export function countOutcomes(call: LimitCall, nearLimitRatio: number): void {
  if (call.group.takesWithHolds > 0) countOpened(call, 1);
  for (let i = 0; i < call.group.size; i++) {
    const take = call.group.takes[i] as Take;
    if (take.mode === Mode.peek || take.mode === Mode.refund) continue;
    if (take.mode !== Mode.settle) countHit(call, i, nearLimitRatio);
    else if (take.outcome !== Outcome.unanswered) countSettlement(take);
  }
}

function countHit(call: LimitCall, index: number, nearLimitRatio: number): void {
  const take = call.group.takes[index] as Take;
  const isJudged = isJudgedOver(call, index);
  if (wasDenied(isJudged ? (call.group.takes[index - 1] as Take) : take)) {
    countOver(take, call.group.source);
    take.stats.deniedUnanswered += take.cost;
  } else if (take.outcome === Outcome.unanswered) return;
  else if (isOfCounter(take.mode)) {
    countCounterHits(take, call.rules[take.descriptor]?.kind === Kind.shadow, nearLimitRatio);
  } else if (isJudged || isOver(take)) countOver(take, call.group.source);
  else countRoom(take, nearLimitRatio);
}

/** Counts the holds that the call has opened; `by` -1 takes that count back. */
export function countOpened({ group }: LimitCall, by: 1 | -1): void {
  for (let i = 0; i < group.size; i++) {
    const { limit, mode, paid, counted, stats } = group.takes[i] as Take;
    if (limit.holdSeconds > 0 && mode === Mode.pay && paid && counted > 0) stats.holdsOpened += by;
  }
}

/** True for a peek that judges the post-paid take right after it (Rule.chargesGivenHits). */
function isJudge(call: LimitCall, index: number): boolean {
  const judge = call.group.takes[index] as Take;
  const paid = index + 1 < call.group.size ? call.group.takes[index + 1] : undefined;
  return paid?.mode === Mode.postPaid && paid.limit === judge.limit && paid.descriptor === judge.descriptor;
}

function isJudgedOver(call: LimitCall, index: number): boolean {
  const judge = index > 0 ? (call.group.takes[index - 1] as Take) : undefined;
  return judge?.mode === Mode.peek && isOver(judge) && isJudge(call, index - 1);
}

/** True if this looks like hits reported after the fact on a rule that is not post-paid, which would never limit anything. */
export function looksLikeLateReport(take: Take): boolean {
  // With holds a large refused cost is an estimate, asked before the work.
  if (wasDenied(take) || take.limit.holdSeconds > 0) return false;
  return take.mode === Mode.pay && take.cost > 1 && isOver(take) && take.limit.stats.peeks > 0 && canRefuseCall(take);
}

function wasDenied(take: Take): boolean {
  return take.byPolicy && take.limit.policy.onStoreFailure === OnStoreFailure.deny;
}

function countOver(take: Take, source: Source): void {
  const { stats } = take;
  stats.overLimit += take.cost;
  if (source === Source.denialMemory) stats.overLimitWithLocalCache += take.cost;
  if (take.kind === Kind.shadow) stats.shadowMode += take.cost;
}

function countSettlement({ stats, limit, counted: held, cost: used }: Take): void {
  if (held === HoldFound.settled) stats.settledAgain++;
  else if (held === HoldFound.none) stats.settledLate++;
  else {
    stats.settlements++;
    if (limit.isConcurrent) return;
    stats.heldUnused += Math.max(0, held - used);
    stats.usedUnheld += Math.max(0, used - held);
  }
}

function countRoom(take: Take, nearLimitRatio: number): void {
  const { stats } = take;
  stats.withinLimit += take.cost;
  const near = divideDown(take.limit.burst * nearLimitRatio, 1);
  const used = take.limit.burst - take.remaining;
  if (take.paid && used > near) stats.nearLimit += Math.min(take.cost, used - near);
}

/** `unknown`: there was no hold, so all that was used was charged. `already_settled`: nothing was changed. */
type SettlementFound = "settled" | "unknown" | "already_settled";

/**
 * What the answered settlements of the descriptor found. Limits may differ if an earlier attempt reached only some of them. Then `unknown` comes
 * before `settled`, and `settled` before `already_settled`. A `concurrent` limit, which charges nothing, has a say only if it is alone.
 */
export function settlementFound({ takes, size }: TakeGroup, descriptor: number): SettlementFound {
  let strongest: Take | undefined;
  for (let i = 0; i < size; i++) {
    const take = takes[i] as Take;
    if (take.descriptor !== descriptor || take.mode !== Mode.settle || take.outcome === Outcome.unanswered) continue;
    if (strongest === undefined || strengthOf(take) > strengthOf(strongest)) strongest = take;
  }
  if (strongest === undefined || strongest.counted === HoldFound.none) return "unknown";
  return strongest.counted === HoldFound.settled ? "already_settled" : "settled";
}

function strengthOf({ counted, limit }: Take): number {
  return (limit.isConcurrent ? 0 : 3) + (counted === HoldFound.none ? 2 : counted === HoldFound.settled ? 0 : 1);
}
