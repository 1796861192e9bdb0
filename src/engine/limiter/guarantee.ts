// Adds the take of a caller's own guarantee right before the take on the shared limit that it may cover
// (engine/domain/guarantee.ts).

import type { Guarantee, Limit, Priority } from "../domain/limit.ts";
import type { Descriptor, LimitRequest } from "../domain/request.ts";
import { Mode, type Take, type TakeGroup } from "../domain/take.ts";
import { writeEntry } from "../rules/bucket-key.ts";

/**
 * Has the group's last take, whose key is written, pay `chosen`: the limit itself or the one with less room. If the
 * limit has guarantees, the take of the caller's comes before it. `caller`: who has the entry.
 */
export function payByPriority(
  group: TakeGroup,
  take: Take,
  chosen: Limit,
  caller: Descriptor | undefined,
  hidesCaller: boolean,
): void {
  take.limit = chosen;
  take.stats = chosen.stats;
  const { priority } = chosen;
  if (priority?.guarantee === undefined) return;
  take.limit = priority.low;
  group.hasGuarantees = true;
  const value = caller?.value(priority.entry) ?? "";
  if (value !== "") addGuarantee(group, take, priority, priority.guarantee, value, hidesCaller);
}

function addGuarantee(
  group: TakeGroup,
  shared: Take,
  { entry }: Priority,
  { limit }: Guarantee,
  value: string,
  hidesCaller: boolean,
): void {
  const own = group.add(limit);
  own.descriptor = shared.descriptor;
  own.kind = shared.kind;
  // A refund goes back to both, and decides nothing.
  own.mode = shared.mode === Mode.refund ? Mode.refund : Mode.guarantee;
  own.cost = shared.cost;
  const { keys } = group;
  const at = keys.end;
  // The shared limit's key, with its hash tag: both buckets are always settled by one server at once.
  if (shared.keys === keys) keys.repeat(shared.keyAt, shared.keyLength);
  else keys.write(shared.bucketKey);
  keys.write("|guarantee");
  writeEntry(keys, entry, value, hidesCaller);
  own.endKey(at);
  group.takes[group.size - 2] = own;
  group.takes[group.size - 1] = shared;
}

/** The first descriptor that names the caller of the limit's guarantees; undefined if none does, or it has none. */
export function guaranteedCaller(
  { priority }: Limit,
  { descriptors, descriptorCount }: Pick<LimitRequest, "descriptors" | "descriptorCount">,
): Descriptor | undefined {
  if (priority?.guarantee === undefined) return undefined;
  for (let i = 0; i < descriptorCount; i++) {
    const value = descriptors[i]?.value(priority.entry);
    if (value !== undefined && value !== "") return descriptors[i];
  }
  return undefined;
}
