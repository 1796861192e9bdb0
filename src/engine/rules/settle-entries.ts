// The entries that make a descriptor a settlement: it asks for nothing, and takes no part in matching and in keys.

import type { Descriptor } from "../domain/request.ts";
import type { DomainRules } from "./rule-set.ts";

/** Whether the descriptor settles a hold. */
export function isSettlement(descriptor: Descriptor, settleEntries: DomainRules["settleEntries"]): boolean {
  if (settleEntries.size === 0) return false;
  for (let i = 0; i < descriptor.entryCount; i++) {
    if (marksSettlement(descriptor.keys[i] as string, descriptor.values[i] as string, settleEntries)) return true;
  }
  return false;
}

/** Whether the entry makes its descriptor a settlement. */
export function marksSettlement(key: string, value: string, settleEntries: DomainRules["settleEntries"]): boolean {
  const values = settleEntries.get(key);
  return values !== undefined && (values.size === 0 || values.has(value));
}
