// How the answers to a call's takes fold into the verdict of the call, and which payments must be returned. All code
// that decides calls in this process uses it; lua/take.lua has the same rules for calls that Redis decides.

import { MICROS_PER_TOKEN } from "../../base/units.ts";
import { Algorithm, usToRefill } from "./limit.ts";
import { copyAnswer, copyQuestion, isOver, Kind, Mode, Outcome, type Take, type TakeGroup, Verdict } from "./take.ts";

/**
 * Folds the descriptors of a call into its verdict. A descriptor is over when any of its takes is. An ordinary
 * descriptor that is over refuses the call. Quota descriptors refuse it when all of them are over. Shadow descriptors
 * never refuse it.
 */
export class VerdictFold {
  #isRefused = false;
  #quotas = 0;
  #quotasOver = 0;

  /** Begins another call. */
  begin(): void {
    this.#isRefused = false;
    this.#quotas = 0;
    this.#quotasOver = 0;
  }

  /** Adds the next descriptor. */
  add(kind: Kind, isDescriptorOver: boolean): void {
    if (kind === Kind.ordinary) this.#isRefused ||= isDescriptorOver;
    else if (kind === Kind.quota) {
      this.#quotas++;
      if (isDescriptorOver) this.#quotasOver++;
    }
  }

  /**
   * Whether the call is refused. `hasSpareQuota`: a quota descriptor without a take passes (TakeGroup.hasSpareQuota).
   */
  refuses(hasSpareQuota: boolean): boolean {
    return this.#isRefused || (this.#quotas > 0 && this.#quotasOver === this.#quotas && !hasSpareQuota);
  }
}

/** Index after the last take of the descriptor whose first take is at `start`. */
export function endOfDescriptor(group: TakeGroup, start: number): number {
  const descriptor = group.takes[start]?.descriptor;
  let end = start + 1;
  while (end < group.size && group.takes[end]?.descriptor === descriptor) end++;
  return end;
}

/** Whether any of the takes from `start` up to, not including, `end` is over. */
export function isAnyOver(group: TakeGroup, start: number, end: number): boolean {
  for (let i = start; i < end; i++) if (isOver(group.takes[i] as Take)) return true;
  return false;
}

const FOLD = new VerdictFold();

/** Whether the answers so far refuse the group; unanswered takes count as not over. */
export function isGroupRefused(group: TakeGroup): boolean {
  FOLD.begin();
  let end = 0;
  for (let start = 0; start < group.size; start = end) {
    end = endOfDescriptor(group, start);
    FOLD.add((group.takes[start] as Take).kind, isAnyOver(group, start, end));
  }
  return FOLD.refuses(group.hasSpareQuota);
}

/**
 * The cost that giving a take back returns: what it paid, or 0 for modes whose payment is kept (refunds, charges,
 * settlements).
 */
export function costToReturn(take: {
  readonly mode: number;
  readonly cost: number;
  readonly cappedHits: number;
}): number {
  const { mode } = take;
  return mode === Mode.pay || mode === Mode.postPaid || mode === Mode.guarantee ? take.cost - take.cappedHits : 0;
}

/**
 * Moves the payments that a call of this verdict returns to `returned`, for Store.giveBack, and updates the group's
 * answers to the state of the buckets after that. `allowed`: those of descriptors that are over. `refused`: all that
 * were made to pass. `failed`: post-paid hits too, because nobody gets an answer. Payments that a policy decided
 * (Take.byPolicy) move to `byPolicy`.
 */
export function collectReturns(group: TakeGroup, verdict: Verdict, returned: TakeGroup, byPolicy = returned): void {
  let end = 0;
  for (let start = 0; start < group.size; start = end) {
    end = endOfDescriptor(group, start);
    if (verdict === Verdict.allowed && !isAnyOver(group, start, end)) continue;
    for (let i = start; i < end; i++) {
      const take = group.takes[i] as Take;
      if (!take.paid || costToReturn(take) === 0) continue;
      if (take.mode === Mode.postPaid && verdict !== Verdict.failed) continue;
      copyAnswer(take, copyQuestion(take, take.byPolicy ? byPolicy : returned));
      take.paid = false;
      take.paidAtUs = 0;
    }
  }
  for (let r = 0; r < returned.size; r++) showReturned(group, returned.takes[r] as Take);
  if (byPolicy === returned) return;
  for (let r = 0; r < byPolicy.size; r++) showReturned(group, byPolicy.takes[r] as Take);
}

function showReturned(group: TakeGroup, returned: Take): void {
  for (let i = 0; i < group.size; i++) {
    const take = group.takes[i] as Take;
    if (take.keyHash !== returned.keyHash || take.bucketKey !== returned.bucketKey) continue;
    if (take.outcome !== Outcome.unanswered && take.byPolicy === returned.byPolicy)
      addRemaining(take, costToReturn(returned));
  }
}

// A token bucket gives back less by what has refilled since the payment, so `remaining` is too large by that much. Its
// reset is at most a microsecond too long. The reset of other algorithms is only updated when the bucket becomes full.
function addRemaining(take: Take, cost: number): void {
  const { limit } = take;
  take.remaining = Math.min(limit.burst, take.remaining + cost);
  if (take.remaining === limit.burst) take.resetUs = 0;
  else if (limit.algorithm === Algorithm.tokenBucket && limit.amount > 0)
    take.resetUs = Math.max(0, take.resetUs - usToRefill(cost * MICROS_PER_TOKEN, limit) + 1);
}
