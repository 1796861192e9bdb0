// Priorities: calls of high priority pay the limit itself, all others a second limit with less room. Both limits have one bucket. A
// bucket's state is what was spent, so less room is only a smaller burst or amount, and stores know nothing of priorities.

import { divideUp } from "../base/units.ts";
import { Algorithm, type Limit, type Names, type Priority } from "../domain/limit.ts";
import type { Descriptor, LimitRequest } from "../domain/request.ts";

/** The settings of `priority` in a rule file. */
export type PrioritySettings = Omit<Priority, "low">;

/** Marks the limit of low priority in ids, names and metric labels. */
export const LOW_LABEL = "low";

/** The part of `quota` that is kept for high priority: rounded up, but less than `quota`. */
export function reserveOf(quota: number, percent: number): number {
  return quota === 0 ? 0 : Math.min(divideUp(quota * percent, 100), quota - 1);
}

/** The limit for calls of low priority: `reserve` less room, with the same debtMax, window and bucket. */
export function lowLimit(whole: Limit, reserve: number, own: Pick<Names, "id"> & Pick<Limit, "stats">): Limit {
  const { amount, burst, shownAmount, names } = whole;
  const less = whole.algorithm === Algorithm.tokenBucket ? 0 : reserve;
  const readableName = names.readableName === "" ? LOW_LABEL : `${names.readableName}/${LOW_LABEL}`;
  return {
    ...whole,
    amount: amount - less,
    burst: burst - reserve,
    shownAmount: shownAmount - less,
    reserve,
    priority: undefined,
    names: { ...names, id: own.id, readableName },
    stats: own.stats,
  };
}

/** The limits on the limit's bucket: the limit itself, and the one for low priority if there is one. */
export function limitsOnBucket(limit: Limit): readonly Limit[] {
  return limit.priority === undefined ? [limit] : [limit, limit.priority.low];
}

/** The limit that the descriptor pays, chosen by its own entries. */
export function limitForDescriptor(limit: Limit, descriptor: Descriptor): Limit {
  const { priority } = limit;
  return priority === undefined || isHigh(priority, descriptor) ? limit : priority.low;
}

/** The limit that the whole call pays: any of its descriptors can make its priority high. */
export function limitForCall(limit: Limit, request: Pick<LimitRequest, "descriptors" | "descriptorCount">): Limit {
  const { priority } = limit;
  if (priority === undefined) return limit;
  for (let i = 0; i < request.descriptorCount; i++) {
    if (isHigh(priority, request.descriptors[i] as Descriptor)) return limit;
  }
  return priority.low;
}

/** If the entry occurs several times, the first one counts. */
function isHigh({ entry, values }: Priority, descriptor: Descriptor): boolean {
  for (let i = 0; i < descriptor.entryCount; i++) {
    if (descriptor.keys[i] === entry) return values.has(descriptor.values[i] as string);
  }
  return false;
}
