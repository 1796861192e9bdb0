// How long a refused caller is told to wait: the wait, plus a jitter that is the same for the same identity.

import { Outcome, type Take } from "../core/take.ts";
import { divideUp, MICROS_PER_SECOND } from "../core/units.ts";

/** Microseconds until the take's cost could pass; of a counter, until its window ends. */
export function waitUsOf(take: Take): number {
  if (take.limit.isCounter) return take.windowSecondsLeft * MICROS_PER_SECOND;
  return take.waitUs;
}

/** Whether waiting helps: a cost above what the limit can ever hold never passes, so no time is told. */
export function canPassLater(take: Take): boolean {
  return take.outcome !== Outcome.never;
}

/**
 * Seconds a status or header shows for the take: the wait if it is over, else the time until the bucket is as new; of a
 * counter always what is left of its window. Not to be shown unless `canPassLater`.
 */
export function resetSecondsOf(take: Take): number {
  if (take.limit.isCounter) return take.windowSecondsLeft;
  const over = take.outcome === Outcome.over || take.outcome === Outcome.never;
  const seconds = divideUp(over ? take.waitUs : take.resetUs, MICROS_PER_SECOND);
  return over || take.paid ? Math.max(1, seconds) : seconds;
}

/**
 * Seconds for Retry-After: the take's wait, lengthened by up to `limit.retryAfterJitter` of itself, rounded up, at least 1.
 * The share is a hash of the bucket key, so one identity always waits the same, whichever process it asks, and identities
 * spread out.
 */
export function retryAfterSeconds(take: Take): number {
  const { retryAfterJitter } = take.limit;
  const share = retryAfterJitter === 0 ? 0 : retryAfterJitter * (stableHash(take.bucketKey) / 4_294_967_296);
  return Math.max(1, Math.ceil((waitUsOf(take) * (1 + share)) / MICROS_PER_SECOND));
}

// FNV-1a, which leaves neighbours close in the high bits, and murmur3's final mix, which spreads them. `keyHash` won't do:
// it is another one in each process.
function stableHash(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
