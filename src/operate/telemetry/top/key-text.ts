// The text of bucket keys for /top, bounded in length because it is kept for as long as a key is counted.

import type { Keyed } from "../../../engine/domain/key-bytes.ts";
import { copyOf, type Descriptor } from "../../../engine/domain/request.ts";
import { Mode, type Take } from "../../../engine/domain/take.ts";
import type { LimitCall } from "../../../engine/limiter/call.ts";
import { entriesOfBucketKey } from "../../../engine/rules/bucket-key.ts";
import { shortText } from "../short-text.ts";
import type { KeyEntry, KeyText } from "./tracked-keys.ts";

/** Longest text of a key, in bytes. A longer one is cut and ends with a hash. Most have less than 100. */
const KEY_BYTES_MAX = 256;
/** Longest entries of a cut key that are kept with it, so that it can be explained. */
const ENTRIES_BYTES_MAX = 512;

/** The text of a take's key. `key` is the take itself, or for a counter its key without the window. */
export function keyTextOf(key: Keyed, take: Take, call: LimitCall): KeyText {
  const text = key.bucketKey;
  const isLong = text.length > KEY_BYTES_MAX;
  const entries = take.limit.isCounter ? entriesOfCounter(text, take, call) : isLong ? entriesOfLong(text) : undefined;
  const blocked = take.mode === Mode.blocked ? ({ isBlocked: true } as const) : undefined;
  return { key: isLong ? copyOf(shortText(text, KEY_BYTES_MAX)) : text, entries, ...blocked };
}

/** A long domain is no part of the entries, which may be short. */
function entriesOfLong(text: string): KeyEntry[] | undefined {
  const entries = entriesOfBucketKey(text);
  const bytes = entries?.reduce((sum, { key, value }) => sum + key.length + value.length, 0) ?? 0;
  return bytes > ENTRIES_BYTES_MAX
    ? undefined
    : entries?.map(({ key, value }) => ({ key: copyOf(key), value: copyOf(value) }));
}

/**
 * The entries that a tracked key was made of; undefined if the key does not tell, because they are hidden, shared or
 * long.
 */
export function entriesOf({ key, entries }: KeyText): readonly KeyEntry[] | undefined {
  return entries ?? entriesOfBucketKey(key);
}

/** The key of a counter without its last part, the start of the window (CounterRules.keyOf). */
export function nameOfCounter(bucketKey: string): string {
  return bucketKey.slice(0, bucketKey.lastIndexOf("_"));
}

// A counter's key escapes nothing, so it can't be parsed. Instead the key is built from the descriptor's entries. If
// the result is the same text, those are its entries; otherwise the key has a pattern or a hash in place of a value.
function entriesOfCounter(text: string, take: Take, { domain, request }: LimitCall): readonly KeyEntry[] | undefined {
  const descriptor: Descriptor | undefined = request.descriptors[take.descriptor];
  if (descriptor === undefined || domain?.counters === undefined || text.length > KEY_BYTES_MAX) return undefined;
  if (nameOfCounter(domain.counters.keyOf(domain, descriptor, undefined)) !== text) return undefined;
  const entries: KeyEntry[] = [];
  for (let i = 0; i < descriptor.entryCount; i++) {
    const key = descriptor.keys[i] as string;
    if (!domain.costEntries.has(key)) entries.push({ key, value: descriptor.values[i] as string });
  }
  return entries;
}
