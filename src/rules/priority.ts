// Who may use the last part of a limit's room: the limit itself is that of calls with high priority, and beside it stands the
// limit that all other calls see. Both are paid from one bucket. What a bucket keeps is what was spent, so less room is
// nothing but a smaller burst or amount: no store knows of priorities.

import { Algorithm, type Limit, type Priority } from "../core/limit.ts";
import type { Descriptor, LimitRequest } from "../core/request.ts";
import { divideUp } from "../core/units.ts";

/** What a rule file says of a priority. */
export type PriorityWords = Omit<Priority, "low">;

/** What tells the two limits of a bucket apart, in ids, names and metric labels. */
export const LOW_LABEL = "low";

/** How much of a room of `quota` is kept: the part rounded up, but never all of it. */
export function reserveOf(quota: number, percent: number): number {
  return quota === 0 ? 0 : Math.min(divideUp(quota * percent, 100), quota - 1);
}

/** The limit as calls of low priority see it. Its debt, its window and its bucket are those of the whole. */
export function lowLimit(whole: Limit, reserve: number, own: Pick<Limit, "id" | "stats">): Limit {
  const isBucket = whole.algorithm === Algorithm.tokenBucket;
  return {
    algorithm: whole.algorithm,
    amount: isBucket ? whole.amount : whole.amount - reserve,
    burst: whole.burst - reserve,
    windowSeconds: whole.windowSeconds,
    calendar: whole.calendar,
    writtenSeconds: whole.writtenSeconds,
    debtMax: whole.debtMax,
    holdSeconds: whole.holdSeconds,
    isConcurrent: false,
    reserve,
    priority: undefined,
    shownAmount: isBucket ? whole.shownAmount : whole.shownAmount - reserve,
    shownUnit: whole.shownUnit,
    name: whole.name,
    readableName: whole.readableName === "" ? LOW_LABEL : `${whole.readableName}/${LOW_LABEL}`,
    id: own.id,
    path: whole.path,
    keySuffix: whole.keySuffix,
    isCounter: false,
    retryAfterJitter: whole.retryAfterJitter,
    onStoreFailure: whole.onStoreFailure,
    sync: whole.sync,
    replaces: whole.replaces,
    stats: own.stats,
  };
}

/** All limits that calls pay in its place: itself, and that of low priority. */
export function limitsOnBucket(limit: Limit): readonly Limit[] {
  return limit.priority === undefined ? [limit] : [limit, limit.priority.low];
}

/** The limit that the descriptor pays, by its own entries. */
export function limitForDescriptor(limit: Limit, descriptor: Descriptor): Limit {
  const { priority } = limit;
  return priority === undefined || isHigh(priority, descriptor) ? limit : priority.low;
}

/** The limit that the whole call pays: any of its descriptors may say that its priority is high. */
export function limitForCall(limit: Limit, request: Pick<LimitRequest, "descriptors" | "descriptorCount">): Limit {
  const { priority } = limit;
  if (priority === undefined) return limit;
  for (let i = 0; i < request.descriptorCount; i++) {
    if (isHigh(priority, request.descriptors[i] as Descriptor)) return limit;
  }
  return priority.low;
}

/** Of several such entries the first one counts. */
function isHigh({ entry, values }: Priority, descriptor: Descriptor): boolean {
  for (let i = 0; i < descriptor.entryCount; i++) {
    if (descriptor.keys[i] === entry) return values.has(descriptor.values[i] as string);
  }
  return false;
}
