// Charges the counters of a group (Mode.charge). Each is charged whatever the verdict of the call is. settlement.ts settles
// the other takes of the group afterwards; lua/counter.lua does the same in Redis.

import { Mode, Outcome, type Take, type TakeGroup } from "../domain/take.ts";
import type { WorkingBucket } from "./working-bucket.ts";
import { windowUsOf } from "./working-bucket.ts";

/** The buckets of the group (settlement.ts). */
type Opened = { open(take: Take, nowUs: number): WorkingBucket };

/** Charges every counter of the group and writes the answers of their takes. Denied takes stay over and are not charged. */
export function chargeCounters(group: TakeGroup, opened: Opened, nowUs: number): void {
  const isDenied = group.stopsAtOver && denies(group);
  const hasOver = group.stopsAtOver && (isDenied || exceeds(group, opened, nowUs));
  for (let i = 0; i < group.size; i++) {
    const take = group.takes[i];
    if (take === undefined || take.mode !== Mode.charge) continue;
    const bucket = opened.open(take, nowUs);
    const isCharged = !hasOver || (!isDenied && wouldExceed(bucket, take));
    charge(bucket, take, isCharged);
  }
}

/** True if the local cache denies one of the group's takes. */
function denies(group: TakeGroup): boolean {
  for (let i = 0; i < group.size; i++) if (group.takes[i]?.mode === Mode.denied) return true;
  return false;
}

/** True if a counter would exceed its limit. Each is compared as it was before the call, even where two share a key. */
function exceeds(group: TakeGroup, opened: Opened, nowUs: number): boolean {
  for (let i = 0; i < group.size; i++) {
    const take = group.takes[i];
    if (take?.mode === Mode.charge && wouldExceed(opened.open(take, nowUs), take)) return true;
  }
  return false;
}

function wouldExceed(bucket: WorkingBucket, take: Take): boolean {
  return bucket.openedUsed + take.cost > take.limit.amount;
}

// The key of a counter names its window, so the bucket is kept for the length of a window.
function charge(bucket: WorkingBucket, take: Take, isCharged: boolean): void {
  if (isCharged) bucket.state.used += take.cost;
  bucket.lifetimeUs = Math.max(bucket.lifetimeUs, windowUsOf(take.limit));
  take.counted = bucket.state.used;
  take.outcome = take.counted > take.limit.amount ? Outcome.over : Outcome.room;
  take.remaining = Math.max(0, take.limit.amount - take.counted);
  take.paid = isCharged;
}
