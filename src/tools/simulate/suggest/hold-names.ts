// Which entries of a recording are about holds. There are no rules yet that say so: whoever asks for suggestions does.

/** Keys of entries, one-byte. */
export interface HoldNames {
  /** Tells one call from another. */
  readonly id: string;
  /** Says what a call may cost. */
  readonly estimate: string;
  /** Marks the end of a call. */
  readonly settle: string;
}

/** True for the key of an entry about a call, not about its caller. */
export function speaksOfHold(key: string, names: HoldNames | undefined): boolean {
  return names !== undefined && (key === names.id || key === names.estimate || key === names.settle);
}
