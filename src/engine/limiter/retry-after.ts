// How long a refused caller is told to wait: the wait, plus a jitter that is constant per bucket.

import { divideUp, MICROS_PER_SECOND } from "../base/units.ts";
import { Outcome, type Take } from "../domain/take.ts";

/** Microseconds until the take's cost could pass; for a counter, until its window ends. */
export function waitUsOf(take: Take): number {
  if (take.limit.isCounter) return take.windowSecondsLeft * MICROS_PER_SECOND;
  return take.waitUs;
}

/** False if waiting does not help: a cost above what the limit can ever hold never passes. */
export function canPassLater(take: Take): boolean {
  return take.outcome !== Outcome.never;
}

/**
 * The seconds that a status or header shows for the take: the wait if it is over, else the time until the bucket is as new; for a
 * counter always the rest of its window. Show it only if `canPassLater`.
 */
export function resetSecondsOf(take: Take): number {
  if (take.limit.isCounter) return take.windowSecondsLeft;
  const over = take.outcome === Outcome.over || take.outcome === Outcome.never;
  const seconds = divideUp(over ? take.waitUs : take.resetUs, MICROS_PER_SECOND);
  return over || take.paid ? Math.max(1, seconds) : seconds;
}

/**
 * Seconds for Retry-After: the take's wait, lengthened by up to `limit.retryAfterJitter` of itself, rounded up, at least 1.
 * The part is a hash of the bucket key: one caller always gets the same jitter from every process, and callers spread out.
 */
export function retryAfterSeconds(take: Take): number {
  const {
    policy: { retryAfterJitter },
  } = take.limit;
  const share = retryAfterJitter === 0 ? 0 : retryAfterJitter * (stableHash(take.bucketKey) / 4_294_967_296);
  return Math.max(1, Math.ceil((waitUsOf(take) * (1 + share)) / MICROS_PER_SECOND));
}

// FNV-1a, whose high bits are close for similar keys, then the finalizer of murmur3, which spreads them. `keyHash` can't be used,
// because it differs in each process.
function stableHash(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
