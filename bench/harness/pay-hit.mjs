// The end of a take in memory, as benches of the store write it.

const NEVER = { answered: () => undefined };

/** Ends the key that was written into the group's bytes from `at` on, and pays one hit, or does what `mode` says with it. */
export function payHit(store, group, take, at, mode = 0) {
  take.endKey(at);
  take.descriptor = 0;
  take.kind = 0;
  take.mode = mode;
  take.cost = 1;
  store.take(group, NEVER);
}
