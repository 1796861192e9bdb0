// How simulations tell callers and holds apart.

import type { Take } from "../../engine/domain/take.ts";

/** 53 bits of the bucket key's hash: among a million callers two share a number with a probability of 1 in 18,000. */
export function callerOf(take: Take): number {
  take.needKeyBytes();
  return take.keyHash * 0x20_0000 + (take.keyHash1 & 0x1f_ffff);
}

/** The bucket and the id of a hold as one name. */
export function heldName(take: Take): string {
  return `${callerOf(take)} ${take.holdId}`;
}
