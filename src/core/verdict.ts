// How the answers to a call's takes fold into its verdict, and which of its payments must not stand then. Whoever settles
// calls in this process goes by this; lua/take_all.lua and sql/034_take_all.sql say the same of what one server settles.

import { Algorithm } from "./limit.ts";
import { usToRefill } from "./refill.ts";
import { copyAnswer, copyQuestion, isOfCounter, Kind, Mode, Outcome, type Take, type TakeGroup } from "./take.ts";
import { MICROS_PER_TOKEN } from "./units.ts";

/** True if the take found no room for its cost. An unanswered one is not over. */
export function isOver(take: Take): boolean {
  return take.outcome >= Outcome.over;
}

/** True if the take can refuse its call: it asks whether a cost may pass. */
export function canRefuseCall(take: Take): boolean {
  return take.mode === Mode.pay || take.mode === Mode.peek || isOfCounter(take.mode);
}

/**
 * The verdict of a call, from its descriptors one by one. A descriptor is over when any of its takes is. An ordinary one
 * that is over refuses the call; quota ones do when all of them are over and none is spare; a shadow one never does.
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

  add(kind: Kind, isDescriptorOver: boolean): void {
    if (kind === Kind.ordinary) this.#isRefused ||= isDescriptorOver;
    else if (kind === Kind.quota) {
      this.#quotas++;
      if (isDescriptorOver) this.#quotasOver++;
    }
  }

  refuses(hasSpareQuota: boolean): boolean {
    return this.#isRefused || (this.#quotas > 0 && this.#quotasOver === this.#quotas && !hasSpareQuota);
  }
}

/** Index behind the last take of the descriptor whose first take is at `start`. */
export function endOfDescriptor(group: TakeGroup, start: number): number {
  const descriptor = group.takes[start]?.descriptor;
  let end = start + 1;
  while (end < group.size && group.takes[end]?.descriptor === descriptor) end++;
  return end;
}

/** Whether any of the takes from `start` to `end` is over. */
export function isAnyOver(group: TakeGroup, start: number, end: number): boolean {
  for (let i = start; i < end; i++) if (isOver(group.takes[i] as Take)) return true;
  return false;
}

const FOLD = new VerdictFold();

/** Whether the answers that are there refuse the group. */
export function isGroupRefused(group: TakeGroup): boolean {
  FOLD.begin();
  let end = 0;
  for (let start = 0; start < group.size; start = end) {
    end = endOfDescriptor(group, start);
    FOLD.add((group.takes[start] as Take).kind, isAnyOver(group, start, end));
  }
  return FOLD.refuses(group.hasSpareQuota);
}

/** How much of a take's payment giving back returns; 0 if it returns nothing. Refunds and charges stand. */
export function costToReturn(take: {
  readonly mode: number;
  readonly cost: number;
  readonly cappedHits: number;
}): number {
  return take.mode === Mode.pay || take.mode === Mode.postPaid ? take.cost - take.cappedHits : 0;
}

/**
 * Which payments of a group are to be returned. `over`: the call passes, and descriptors that are over return theirs. `refused`: all
 * that was paid to pass. `unheard`: nobody gets an answer, so that reports after the fact are returned, too.
 */
export const Returns = { over: 0, refused: 1, unheard: 2 } as const;
export type Returns = (typeof Returns)[keyof typeof Returns];

/**
 * Moves those payments to `returned`, which is for Store.giveBack, and has the answers of the group tell the buckets' state
 * after it.
 */
export function collectReturns(group: TakeGroup, which: Returns, returned: TakeGroup): void {
  let end = 0;
  for (let start = 0; start < group.size; start = end) {
    end = endOfDescriptor(group, start);
    if (which === Returns.over && !isAnyOver(group, start, end)) continue;
    for (let i = start; i < end; i++) {
      const take = group.takes[i] as Take;
      if (!take.paid || !(take.mode === Mode.pay || (take.mode === Mode.postPaid && which === Returns.unheard)))
        continue;
      copyAnswer(take, copyQuestion(take, returned));
      take.paid = false;
      take.paidAtUs = 0;
    }
  }
  for (let r = 0; r < returned.size; r++) showReturned(group, returned.takes[r] as Take);
}

function showReturned(group: TakeGroup, returned: Take): void {
  for (let i = 0; i < group.size; i++) {
    const take = group.takes[i] as Take;
    if (take.keyHash !== returned.keyHash || take.bucketKey !== returned.bucketKey) continue;
    if (take.outcome !== Outcome.unanswered && take.byPolicy === returned.byPolicy)
      addRemaining(take, costToReturn(returned));
  }
}

// Exact but for what a token bucket has refilled since the payment: that is not given back, so `remaining` is too large by it. A
// token bucket's reset is at most a microsecond too long; the reset of other algorithms is known only once nothing is left in them.
function addRemaining(take: Take, cost: number): void {
  const { limit } = take;
  take.remaining = Math.min(limit.burst, take.remaining + cost);
  if (take.remaining === limit.burst) take.resetUs = 0;
  else if (limit.algorithm === Algorithm.tokenBucket && limit.amount > 0)
    take.resetUs = Math.max(0, take.resetUs - usToRefill(cost * MICROS_PER_TOKEN, limit) + 1);
}
