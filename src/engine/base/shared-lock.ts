// A lock in a word of memory that threads share. It has the number of the thread that holds it, so that it can be freed once that thread has
// ended: only then, never after a time limit, because a slow holder is not a dead one.

/** Times that a lock is tried before its thread sleeps. Locks are held for microseconds. */
const TRIES_MAX = 100;
/** Longest sleep: whoever frees a lock wakes a sleeper, unless its thread ends in between. */
const SLEEP_MS = 100;
/** In the word, next to the holder's number: others sleep until it is free. */
const IS_AWAITED = 1 << 16;
const OWNER_MASK = IS_AWAITED - 1;

/** Waits for the lock. `owner`: number of this thread, from 1 to 65,535. */
export function takeLock(words: Int32Array, at: number, owner: number): void {
  if (Atomics.compareExchange(words, at, 0, owner) !== 0) wait(words, at, owner);
}

export function freeLock(words: Int32Array, at: number): void {
  if ((Atomics.exchange(words, at, 0) & IS_AWAITED) !== 0) Atomics.notify(words, at, 1);
}

/** The number of the thread that holds the lock; 0 if it is free. */
export function ownerOf(words: Int32Array, at: number): number {
  return Atomics.load(words, at) & OWNER_MASK;
}

function wait(words: Int32Array, at: number, owner: number): void {
  for (let tries = 0; tries < TRIES_MAX; tries++)
    if (Atomics.load(words, at) === 0 && Atomics.compareExchange(words, at, 0, owner) === 0) return;
  // Whoever has slept leaves the mark behind, because others may still sleep.
  while (Atomics.compareExchange(words, at, 0, owner | IS_AWAITED) !== 0) {
    const found = Atomics.load(words, at);
    if (found !== 0 && Atomics.compareExchange(words, at, found, found | IS_AWAITED) === found)
      Atomics.wait(words, at, found | IS_AWAITED, SLEEP_MS);
  }
}
