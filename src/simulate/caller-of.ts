// Whom a take is for, and which hold it names, as simulations tell them apart.

import type { Take } from "../core/take.ts";

/** 53 bits of the bucket key's hash: of a million callers two are one with a probability of 1 in 18,000. */
export function callerOf(take: Take): number {
  take.needKeyBytes();
  return take.keyHash * 0x20_0000 + (take.keyHash1 & 0x1f_ffff);
}

/** The bucket and the id of a hold as one name. */
export function heldName(take: Take): string {
  return `${callerOf(take)} ${take.holdId}`;
}
