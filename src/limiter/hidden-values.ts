// Which descriptors of a call have values that nobody may read (`hash_values`), and what is shown in their place. For
// whatever tells people about a call; bucket keys and metrics see to it in fill.ts.

import type { Descriptor } from "../core/request.ts";
import { shownValue } from "../rules/bucket-key.ts";
import { hidesValues } from "../rules/match.ts";
import type { LimitCall } from "./call.ts";

/** The values of descriptor `index` as they may be shown, in the order of its entries. One-byte text. */
export function shownValues(call: LimitCall, index: number): readonly string[] {
  const { domain, request } = call;
  const descriptor = request.descriptors[index] as Descriptor;
  const isHidden = domain !== undefined && hidesValues(domain, descriptor);
  return descriptor.values.slice(0, descriptor.entryCount).map((value) => shownValue(value, isHidden));
}
