// Replaces values that people must not see (`hash_values`) by hashes. For everything that shows a call; fill.ts does it for bucket keys
// and metrics.

import type { Descriptor } from "../domain/request.ts";
import { shownValue } from "../rules/bucket-key.ts";
import { hidesValues } from "../rules/match.ts";
import type { LimitCall } from "./call.ts";

/** The values of descriptor `index` as they may be shown, in the order of its entries. One-byte. */
export function shownValues(call: LimitCall, index: number): readonly string[] {
  const descriptor = call.request.descriptors[index] as Descriptor;
  const isHidden = hides(call, index);
  return descriptor.values.slice(0, descriptor.entryCount).map((value) => shownValue(value, isHidden));
}

/** A value that came beside descriptor `index`, as it may be shown. One-byte. */
export function shownBeside(call: LimitCall, index: number, value: string): string {
  return shownValue(value, hides(call, index));
}

function hides({ domain, request }: LimitCall, index: number): boolean {
  return domain !== undefined && hidesValues(domain, request.descriptors[index] as Descriptor);
}
