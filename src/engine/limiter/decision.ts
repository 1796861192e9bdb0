// Second half of a call: makes the decision from the decided takes, and counts them for the stats of their rules. Of a
// descriptor's limits and the global limit, the strictest is shown.

import { AMOUNT_MAX, divideDown, divideUp, MICROS_PER_SECOND } from "../../base/units.ts";
import { OnStoreFailure } from "../domain/limit.ts";
import { HoldFound, isOver, Kind, Mode, Outcome, Source, type Take, type TakeGroup, Verdict } from "../domain/take.ts";
import { isAnyOver, VerdictFold } from "../domain/verdict.ts";
import type { LimitCall, Status } from "./call.ts";

/**
 * Writes the decision of a decided call: one status per descriptor, in order, which shows the descriptor's strictest
 * limit. Also sets `call.governing`. Under SHADOW_MODE statuses keep their codes, and the call passes.
 */
export function combine(call: LimitCall): void {
  const decision = call.decision;
  const globalTake = call.globalTake;
  const globalRefuses = globalTake !== undefined && isOver(globalTake);
  decision.overLimit = call.group.verdict === Verdict.refused || call.refusal !== undefined;
  const hasRuntime = call.runtime.length > 0;
  let governing: Take | undefined = globalRefuses ? globalTake : undefined;
  for (let i = 0; i < call.request.descriptorCount; i++) {
    let shown = strictestOf(call, i, globalRefuses ? globalTake : undefined);
    const applied = hasRuntime ? call.runtime[i] : undefined;
    const isUnlimited = call.rules[i]?.isUnlimited === true || applied?.kind === "exempt";
    if (shown === undefined && !isUnlimited && globalTake?.outcome !== Outcome.unanswered) shown = globalTake;
    const status = decision.addStatus();
    if (shown === undefined) {
      status.remaining = isUnlimited ? AMOUNT_MAX : 0;
      status.overLimit = applied?.blocked !== undefined || call.refusal === "incomplete";
      continue;
    }
    showTake(status, shown, shown.mode !== Mode.blocked && isShadowRule(call, shown));
    governing = strictest(governing, shown);
  }
  call.governing = governing;
  if (!decision.overLimit) call.wasShadowed = overShadow(call) !== undefined;
}

/** Whether a call that was decided under SHADOW_MODE would have been refused without it. `quotaMode` is QUOTA_MODE. */
export function wouldRefuse(call: LimitCall, quotaMode: boolean): boolean {
  if (call.missing !== undefined && call.domain?.required?.refuses === true) return true;
  const fold = new VerdictFold();
  for (let i = 0; i <= call.request.descriptorCount; i++) {
    const isGlobal = i === call.request.descriptorCount;
    const first = call.firstTakes[i] ?? 0;
    const end = isGlobal ? call.group.size : (call.firstTakes[i + 1] ?? 0);
    if (first === end) continue;
    const rule = isGlobal ? undefined : call.rules[i];
    const isQuota = !isGlobal && (quotaMode || rule?.isQuota === true);
    const kind = rule?.kind === Kind.shadow ? Kind.shadow : isQuota ? Kind.quota : Kind.ordinary;
    fold.add(kind, isAnyOver(call.group, first, end));
  }
  return fold.refuses(call.group.hasSpareQuota);
}

function showTake(status: Status, take: Take, isShadow: boolean): void {
  const over = isOver(take);
  status.overLimit = over && !isShadow;
  status.limit = take.limit;
  status.remaining = take.remaining;
  status.hasReset = canPassLater(take);
  status.resetSeconds = resetSecondsOf(take);
}

/** The strictest of `first` and the descriptor's answered takes; undefined if there isn't one. */
export function strictestOf(call: LimitCall, descriptor: number, first: Take | undefined): Take | undefined {
  let shown = first;
  const end = call.firstTakes[descriptor + 1] ?? 0;
  for (let t = call.firstTakes[descriptor] ?? 0; t < end; t++) {
    const take = call.group.takes[t] as Take;
    if (take.outcome !== Outcome.unanswered) shown = strictest(shown, take);
  }
  return shown;
}

/**
 * The stricter of two takes: one that refuses before one that allows. Of two that refuse, the longer wait; of two that
 * allow, the one with less remaining. A `concurrent` limit that allows comes last, because its remaining places are
 * another unit.
 */
function strictest(one: Take | undefined, other: Take): Take {
  if (one === undefined) return other;
  const oneOver = isOver(one);
  if (oneOver !== isOver(other)) return oneOver ? one : other;
  if (oneOver) return isLonger(other, one) ? other : one;
  if (one.limit.isConcurrent !== other.limit.isConcurrent) return one.limit.isConcurrent ? other : one;
  return other.remaining < one.remaining ? other : one;
}

/** Whether refusal `one` lasts longer than `other`. A cost that can never pass lasts longest. */
function isLonger(one: Take, other: Take): boolean {
  if (other.outcome === Outcome.never) return false;
  return one.outcome === Outcome.never || one.waitUs > other.waitUs;
}

function isShadowRule(call: LimitCall, take: Take): boolean {
  return take.descriptor >= 0 && call.rules[take.descriptor]?.kind === Kind.shadow;
}

/** The first take of shadow mode that is over; undefined if there isn't one. */
export function overShadow({ group }: LimitCall): Take | undefined {
  for (let i = 0; i < group.size; i++) {
    const take = group.takes[i] as Take;
    if (take.kind === Kind.shadow && isOver(take)) return take;
  }
  return undefined;
}

// The wait that a refused caller gets: the wait, plus a jitter that is constant per bucket.

/** False if waiting does not help: a cost above what the limit can ever hold never passes. */
export function canPassLater(take: Take): boolean {
  return take.outcome !== Outcome.never;
}

/**
 * The seconds that a status or header shows for the take: the wait if it is over, else the time until the bucket is
 * full. Show it only if `canPassLater`.
 */
export function resetSecondsOf(take: Take): number {
  const over = take.outcome === Outcome.over || take.outcome === Outcome.never;
  const seconds = divideUp(over ? take.waitUs : take.resetUs, MICROS_PER_SECOND);
  return over || take.paid ? Math.max(1, seconds) : seconds;
}

/**
 * Seconds for Retry-After: the take's wait, lengthened by up to `limit.retryAfterJitter` of itself, rounded up, at
 * least 1. The part is a hash of the bucket key: one caller always gets the same jitter from every process, and callers
 * spread out.
 */
export function retryAfterSeconds(take: Take): number {
  const {
    policy: { retryAfterJitter },
  } = take.limit;
  const share = retryAfterJitter === 0 ? 0 : retryAfterJitter * (stableHash(take.bucketKey) / 4_294_967_296);
  return Math.max(1, Math.ceil((take.waitUs * (1 + share)) / MICROS_PER_SECOND));
}

// FNV-1a, whose high bits are close for similar keys, then the finalizer of murmur3, which spreads them. `keyHash`
// can't be used, because it differs in each process.
function stableHash(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}

// Stats of rules, in hits, with the reference service's meanings.

/** Counts hits before the store is asked, so that they are counted even if the store fails. */
export function countHits(call: LimitCall): void {
  for (let i = 0; i < call.group.size; i++) {
    const take = call.group.takes[i] as Take;
    if (take.mode === Mode.pay || take.mode === Mode.postPaid || take.mode === Mode.blocked)
      take.stats.totalHits += take.cost;
    else if (take.mode === Mode.peek && !isJudge(call, i)) {
      take.limit.stats.withoutHits++;
      take.limit.stats.wasPeeked = true;
    }
  }
}

/**
 * Counts the results of the takes. A limit is near if more than the part `nearLimitRatio` (0 to 1) of it is used.
 */
export function countOutcomes(call: LimitCall, nearLimitRatio: number): void {
  if (call.runtime.length > 0) countShadowBlocks(call);
  for (let i = 0; i < call.group.size; i++) {
    const take = call.group.takes[i] as Take;
    if (take.mode !== Mode.pay && isCountedApart(call, i)) continue;
    if (call.tally?.tally(call, take) === true) continue;
    countHit(call, i, nearLimitRatio);
  }
}

/** Counts what blocks refuse only on paper, as the first limit that has room counts what shadow mode refuses. */
function countShadowBlocks(call: LimitCall): void {
  for (let i = 0; i < call.runtime.length; i++) {
    if (call.runtime[i]?.isShadow !== true) continue;
    const take = call.group.takes[call.firstTakes[i] ?? 0];
    if (take?.descriptor !== i || take.mode !== Mode.pay) continue;
    call.wasShadowed = !call.decision.overLimit;
    if (isOver(take)) continue;
    take.stats.overLimit += take.cost;
    take.stats.shadowMode += take.cost;
  }
}

function countHit(call: LimitCall, index: number, nearLimitRatio: number): void {
  const take = call.group.takes[index] as Take;
  const isJudged = isJudgedOver(call, index);
  if (wasDenied(isJudged ? (call.group.takes[index - 1] as Take) : take)) {
    countOver(take, call.group.source);
    take.stats.deniedUnanswered += take.cost;
  } else if (take.outcome === Outcome.unanswered) return;
  else if (take.mode === Mode.denied || take.mode === Mode.blocked) countOver(take, Source.denialMemory);
  else if (isJudged || isOver(take)) countOver(take, call.group.source);
  else countRoom(take, nearLimitRatio);
}

/** True for takes that are no hits of their limit. Counts how guarantees were used. */
function isCountedApart({ group }: LimitCall, index: number): boolean {
  const take = group.takes[index] as Take;
  if (take.mode === Mode.guarantee) countWay(take, group.takes[index + 1] as Take);
  return take.mode === Mode.peek || take.mode === Mode.refund || take.mode === Mode.guarantee;
}

/** Counts how a call passed a limit with guarantees, or that it did not although its caller's covered it. */
function countWay({ stats, cost, paid, waitUs, outcome }: Take, shared: Take): void {
  if (shared.mode !== Mode.pay || outcome === Outcome.unanswered) return;
  if (paid) stats.guaranteed += cost;
  else if (shared.paid) stats.borrowed += cost;
  else if (waitUs === 0 && isOver(shared)) stats.guaranteeBroken += cost;
}

/** True for a peek that judges the post-paid take right after it (Rule.chargesGivenHits). */
export function isJudge(call: LimitCall, index: number): boolean {
  const judge = call.group.takes[index] as Take;
  const paid = index + 1 < call.group.size ? call.group.takes[index + 1] : undefined;
  return paid?.mode === Mode.postPaid && paid.limit === judge.limit && paid.descriptor === judge.descriptor;
}

function isJudgedOver(call: LimitCall, index: number): boolean {
  const judge = index > 0 ? (call.group.takes[index - 1] as Take) : undefined;
  return judge?.mode === Mode.peek && isOver(judge) && isJudge(call, index - 1);
}

/** True if the failure policy refused the take in place of the store. */
export function wasDenied(take: Take): boolean {
  return take.byPolicy && take.limit.policy.onStoreFailure === OnStoreFailure.deny;
}

/** Counts the hits of a take that was over. */
export function countOver(take: Take, source: Source): void {
  const { stats } = take;
  stats.overLimit += take.cost;
  if (source === Source.denialMemory) stats.overLimitWithLocalCache += take.cost;
  if (take.kind === Kind.shadow) stats.shadowMode += take.cost;
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
 * What the answered settlements of the descriptor found. Limits may differ if an earlier attempt reached only some of
 * them. Then `unknown` comes before `settled`, and `settled` before `already_settled`. A `concurrent` limit, which
 * charges nothing, has a say only if it is alone.
 */
export function settlementFound({ takes, size }: TakeGroup, descriptor: number): SettlementFound {
  let strongest: Take | undefined;
  for (let i = 0; i < size; i++) {
    const take = takes[i] as Take;
    if (take.descriptor !== descriptor || take.mode !== Mode.settle || take.outcome === Outcome.unanswered) continue;
    if (strongest === undefined || strengthOf(take) > strengthOf(strongest)) strongest = take;
  }
  if (strongest === undefined || strongest.held === HoldFound.none) return "unknown";
  return strongest.held === HoldFound.settled ? "already_settled" : "settled";
}

function strengthOf({ held, limit }: Take): number {
  return (limit.isConcurrent ? 0 : 3) + (held === HoldFound.none ? 2 : held === HoldFound.settled ? 0 : 1);
}

/**
 * What the descriptor has paid, in the caller's parts. A `concurrent` limit costs 1, so the largest cost is the amount.
 */
export function paidBy({ group, rules }: LimitCall, index: number): number {
  let paid = 0;
  for (let i = 0; i < group.size; i++) {
    const take = group.takes[i] as Take;
    if (take.paid && take.mode === Mode.pay && take.descriptor === index) paid = Math.max(paid, take.cost);
  }
  return paid * (rules[index]?.hold?.estimate?.per ?? 1);
}
