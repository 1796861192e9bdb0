// The longest wait of a call for the store: STORE_DEADLINE, or more for calls that have the time. Pure.

/** Two bounds, in microseconds. */
export interface StorePatience {
  /** Longest wait of any call, unless its own deadline is earlier. */
  readonly deadlineUs: number;
  /** Longest wait of a call whose own deadline leaves at least twice as long. */
  readonly patienceUs: number;
}

/**
 * When a call sent at `sentUs` is answered without the store. It waits for `deadlineUs`, or longer: for half of what its own deadline leaves,
 * but at most for `patienceUs`; never beyond its own deadline. All in microseconds.
 */
export function answerByUs(sentUs: number, callDeadlineUs: number, { deadlineUs, patienceUs }: StorePatience): number {
  const leftUs = callDeadlineUs - sentUs;
  return sentUs + Math.min(leftUs, Math.max(deadlineUs, Math.min(patienceUs, leftUs / 2)));
}
