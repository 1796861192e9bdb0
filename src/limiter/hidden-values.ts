// Replaces values that people must not see (`hash_values`) by hashes. For everything that shows a call; fill.ts does it for bucket keys
// and metrics.

import type { Descriptor } from "../core/request.ts";
import { shownValue } from "../rules/bucket-key.ts";
import { hidesValues } from "../rules/match.ts";
import type { LimitCall } from "./call.ts";

/** The values of descriptor `index` as they may be shown, in the order of its entries. One-byte. */
export function shownValues(call: LimitCall, index: number): readonly string[] {
  const { domain, request } = call;
  const descriptor = request.descriptors[index] as Descriptor;
  const isHidden = domain !== undefined && hidesValues(domain, descriptor);
  return descriptor.values.slice(0, descriptor.entryCount).map((value) => shownValue(value, isHidden));
}
