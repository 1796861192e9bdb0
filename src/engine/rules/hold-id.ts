// Reads from a descriptor the id of its hold, and whether it settles the hold.

import { createHash } from "node:crypto";
import type { Descriptor } from "../domain/request.ts";
import type { DomainRules, HoldEntries } from "./rule-set.ts";

/** Longer ids are replaced by `#` and their SHA-256, so that holds stay small whatever callers send. */
const ID_BYTES_MAX = 64;

/** The id of the descriptor's hold, one-byte; empty if it names none. */
export function holdIdOf(descriptor: Descriptor, { idEntry }: HoldEntries): string {
  for (let i = 0; i < descriptor.entryCount; i++) {
    if (descriptor.keys[i] !== idEntry) continue;
    return keptId(descriptor.values[i] as string);
  }
  return "";
}

/** The id as the store keeps it. One-byte. An id that begins with `#` is replaced too, so that it can't equal another one's hash. */
export function keptId(id: string): string {
  return id.length <= ID_BYTES_MAX && !id.startsWith("#")
    ? id
    : `#${createHash("sha256").update(id, "latin1").digest("base64url")}`;
}

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
