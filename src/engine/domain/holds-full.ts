// The bounds on live holds (payments that wait for their settlement), and the error beyond them.

import { StoreError } from "../base/errors.ts";

/** Most live holds of one bucket. lua/holds.lua has the same number. */
export const HOLDS_PER_BUCKET_MAX = 10_000;
/** Most live holds in the memory of a process, some 240 bytes each (bench/store/holds.mjs). */
export const HOLDS_IN_MEMORY_MAX = 1_000_000;

/** The failure of a call for which no hold can be opened. The call has paid nothing. */
export const HOLDS_FULL_ERROR = new StoreError(
  "STORE_HOLDS_FULL",
  `too many holds wait for their settlement: expected at most ${HOLDS_PER_BUCKET_MAX} of one bucket, and in memory ${HOLDS_IN_MEMORY_MAX} of all`,
);
