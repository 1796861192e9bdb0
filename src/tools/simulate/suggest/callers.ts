// The caller of a descriptor, and how many hits it brings.

import type { Descriptor, LimitRequest } from "../../../engine/domain/request.ts";
import { type HoldNames, speaksOfHold } from "./hold-names.ts";

/** Hits that the descriptor pays. */
export function hitsOf(request: LimitRequest, descriptor: Descriptor): number {
  return descriptor.hasHits ? descriptor.hits : Math.max(1, request.hitsAddend);
}

/** The values of a descriptor as one name of its caller. */
export function callerName(descriptor: Descriptor, names?: HoldNames): string {
  let name = "";
  for (let i = 0; i < descriptor.entryCount; i++) {
    if (speaksOfHold(descriptor.keys[i] as string, names)) continue;
    const value = descriptor.values[i] as string;
    name += `${value.length}:${value}`;
  }
  return name;
}
