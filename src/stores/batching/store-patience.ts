// How long a call waits for the store: STORE_DEADLINE, longer for calls that have the time. Pure.

/** Both in microseconds. */
export interface StorePatience {
  /** How long any call waits, unless its own deadline is nearer. */
  readonly deadlineUs: number;
  /** How long a call waits at most whose own deadline leaves at least twice as long. */
  readonly patienceUs: number;
}

/**
 * When a call that is sent at `sentUs` is answered without the store: after `deadlineUs`; later, though never after half
 * of what its own deadline leaves nor after `patienceUs`; never later than its own deadline. All in microseconds.
 */
export function answerByUs(sentUs: number, callDeadlineUs: number, { deadlineUs, patienceUs }: StorePatience): number {
  const leftUs = callDeadlineUs - sentUs;
  return sentUs + Math.min(leftUs, Math.max(deadlineUs, Math.min(patienceUs, leftUs / 2)));
}
