// How keys of buckets read, in bounded length: text is kept for as long as a key is counted.

import type { Keyed } from "../../core/key-bytes.ts";
import { copyOf, type Descriptor } from "../../core/request.ts";
import type { Take } from "../../core/take.ts";
import type { LimitCall } from "../../limiter/call.ts";
import { entriesOfBucketKey } from "../../rules/bucket-key.ts";
import { counterKey } from "../../rules/counter-key.ts";
import { shortText } from "../short-text.ts";
import type { KeyEntry, KeyText } from "./tracked-keys.ts";

/** Longest text of a key, in bytes: longer ones are cut and end with a hash. Most have less than 100. */
export const KEY_BYTES_MAX = 256;

/** The text of a take's key. `key` is the take's, without the window where it is a counter's. */
export function keyTextOf(key: Keyed, take: Take, call: LimitCall): KeyText {
  const text = key.bucketKey;
  const short = text.length <= KEY_BYTES_MAX ? text : copyOf(shortText(text, KEY_BYTES_MAX));
  return { key: short, entries: take.limit.isCounter ? entriesOfCounter(text, take, call) : undefined };
}

/** The entries that a tracked key was made of; undefined if it does not tell them, because they are hidden, shared or long. */
export function entriesOf({ key, entries }: KeyText): readonly KeyEntry[] | undefined {
  return entries ?? entriesOfBucketKey(key);
}

/** The key of a counter without the start of its window, which is its end (rules/counter-key.ts). */
export function nameOfCounter(bucketKey: string): string {
  return bucketKey.slice(0, bucketKey.lastIndexOf("_"));
}

// Nothing is escaped in the key of a counter, so it can't be read. If the descriptor's entries as they are make that key, they are
// what it says; if a pattern or a hash stands in it for any of them, they are not.
function entriesOfCounter(text: string, take: Take, { domain, request }: LimitCall): readonly KeyEntry[] | undefined {
  const descriptor: Descriptor | undefined = request.descriptors[take.descriptor];
  if (descriptor === undefined || domain?.counterPrefix === undefined || text.length > KEY_BYTES_MAX) return undefined;
  if (nameOfCounter(counterKey(domain.counterPrefix, domain, descriptor, undefined)) !== text) return undefined;
  const entries: KeyEntry[] = [];
  for (let i = 0; i < descriptor.entryCount; i++) {
    const key = descriptor.keys[i] as string;
    if (!domain.costEntries.has(key)) entries.push({ key, value: descriptor.values[i] as string });
  }
  return entries;
}
