// Callers as text for reports: entries as they would be typed, with values hidden if their rule says so
// (`hash_values`). Also as numbers that tell them apart.

import { typedText } from "../../engine/domain/entry-text.ts";
import { type Descriptor, textOf } from "../../engine/domain/request.ts";
import { GLOBAL_DESCRIPTOR, type Take } from "../../engine/domain/take.ts";
import type { LimitCall } from "../../engine/limiter/call.ts";
import { shownValues } from "../../engine/limiter/shown-values.ts";
import { shownValue } from "../../engine/rules/bucket-key.ts";

/** Longer entries are cut, so that a report stays readable whatever callers send. */
const ENTRY_CHARS_MAX = 120;
const ENTRIES_MAX = 8;
/** Most characters of a whole descriptor: reports remember hundreds of thousands of callers. */
const TEXT_CHARS_MAX = 240;

/** The entries that tell the take's bucket from others; of the global limit, that it is for every call. */
export function callerText(call: LimitCall, take: Take, hashesAll: boolean): string {
  if (take.descriptor === GLOBAL_DESCRIPTOR) return "every call";
  return descriptorText(call, take.descriptor, hashesAll, call.domain?.costEntries);
}

/** A descriptor without the entries that are left out. `hashesAll` hides all values, whatever the rules say. */
export function descriptorText(
  call: LimitCall,
  index: number,
  hashesAll: boolean,
  leftOut: ReadonlySet<string> = new Set(),
): string {
  const { keys } = call.request.descriptors[index] as Descriptor;
  const values = shownValues(call, index);
  const shown = values.map((value, i) => ({ key: keys[i] ?? "", value })).filter(({ key }) => !leftOut.has(key));
  const entries = shown.slice(0, ENTRIES_MAX).map(({ key, value }) => {
    const text = { key: textOf(key), value: textOf(hashesAll ? shownValue(value, true) : value) };
    return cut(typedText([text]), ENTRY_CHARS_MAX);
  });
  const more = shown.length > ENTRIES_MAX ? ` and ${shown.length - ENTRIES_MAX} entries more` : "";
  return entries.length === 0 ? "(no entries)" : cut(entries.join(",") + more, TEXT_CHARS_MAX);
}

// A slice of a string keeps the whole string alive; a new string does not.
function cut(text: string, charsMax: number): string {
  return text.length <= charsMax ? text : Buffer.from(`${text.slice(0, charsMax - 3)}...`).toString();
}

/** 53 bits of the bucket key's hash: among a million callers two share a number with a probability of 1 in 18,000. */
export function callerOf(take: Take): number {
  take.needKeyBytes();
  return take.keyHash * 0x20_0000 + (take.keyHash1 & 0x1f_ffff);
}

/** The bucket and the id of a hold as one name. */
export function heldName(take: Take): string {
  return `${callerOf(take)} ${take.holdId}`;
}
