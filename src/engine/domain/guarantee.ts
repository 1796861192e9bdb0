// The two ways of a call through a limit that keeps a part of its room for callers' guarantees. The take of the
// caller's own guarantee comes right before the take on the shared limit, which it decides: if the guarantee covers the
// cost, the call may use the whole room and pays both; if not, it borrows, from the room without the kept part.
//
// A guarantee never puts its call over: the outcome of its take is `room`. Its `waitUs` is 0 if it covers the cost,
// else the time after which the cost could pass that way, WAIT_US_MAX if never. Both ways pay the same buckets of other
// limits, and the second one has less room; so if another limit refuses the first way, it refuses the second, and there
// is nothing to try again.
//
// A payment that is given back returns to both, but for what has refilled meanwhile. To the guarantee, too, only as
// much as to the shared limit: by its own slower rate more would return, and the caller could spend that again out of
// the part that is kept for others.

import { type Limit, WAIT_US_MAX } from "./limit.ts";
import { isOver, Mode, Outcome, type Take, type TakeGroup } from "./take.ts";

/** How a call passed a limit. */
export type Way = "guaranteed" | "borrowed";

/** The take of the guarantee that decides the group's take `index`; undefined if its call has none. */
function guaranteeOf({ takes }: TakeGroup, index: number): Take | undefined {
  const before = index > 0 ? takes[index - 1] : undefined;
  return before?.mode === Mode.guarantee ? before : undefined;
}

/** The limit by which the answered take `index` was judged. */
export function limitJudged(group: TakeGroup, index: number): Limit {
  const { limit } = group.takes[index] as Take;
  const guarantee = guaranteeOf(group, index);
  return guarantee === undefined ? limit : limitOfWay(limit, guarantee);
}

/** The limit by which a take is judged, decided by the answered take of its guarantee. */
function limitOfWay(limit: Limit, { waitUs }: Take): Limit {
  const { priority } = limit;
  return (waitUs === 0 ? priority?.guarantee?.whole : priority?.low) ?? limit;
}

/** Writes into the takes of a concluded call what is true of both ways together. All show the whole limit. */
export function joinWays(group: TakeGroup): void {
  for (let i = 0; i < group.size; i++) {
    const take = group.takes[i] as Take;
    const { priority } = take.limit;
    if (priority?.guarantee === undefined) continue;
    const { limit, whole } = priority.guarantee;
    const guarantee = guaranteeOf(group, i);
    take.limit = whole;
    if (guarantee !== undefined && take.outcome !== Outcome.unanswered && !take.byPolicy)
      joinTakes(take, guarantee, priority.low.reserve);
    // Nobody is shown the guarantee, or its refund, in place of the limit that it belongs to.
    const own = group.takes[i - 1];
    if (own?.limit === limit) own.remaining = Number.POSITIVE_INFINITY;
  }
}

function joinTakes(take: Take, guarantee: Take, reserve: number): void {
  // A call that is covered may use what its guarantee has left, or borrow.
  if (guarantee.waitUs === 0)
    take.remaining = Math.max(Math.min(guarantee.remaining, take.remaining), take.remaining - reserve);
  else if (isOver(take) && guarantee.waitUs < WAIT_US_MAX) {
    take.waitUs = take.outcome === Outcome.never ? guarantee.waitUs : Math.min(take.waitUs, guarantee.waitUs);
    take.outcome = Outcome.over;
  }
}

/** How the take passed; undefined if it did not, or if its limit has no guarantees. */
export function wayOf(group: TakeGroup, take: Take): Way | undefined {
  if (take.limit.priority?.guarantee === undefined || take.outcome !== Outcome.room) return undefined;
  if (take.mode === Mode.refund) return undefined;
  const guarantee = guaranteeOf(group, group.takes.indexOf(take));
  return guarantee?.waitUs === 0 && guarantee.outcome === Outcome.room ? "guaranteed" : "borrowed";
}
