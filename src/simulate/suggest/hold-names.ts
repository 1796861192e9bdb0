// Which entries of a recording speak of holds. No rules say so yet: whoever asks for suggestions does.

/** Keys of entries, one-byte. */
export interface HoldNames {
  /** Tells one call from another. */
  readonly id: string;
  /** Says what a call may cost. */
  readonly estimate: string;
  /** Marks the end of a call. */
  readonly settle: string;
}

/** True for the key of an entry that speaks of a call, not of its caller. */
export function speaksOfHold(key: string, names: HoldNames | undefined): boolean {
  return names !== undefined && (key === names.id || key === names.estimate || key === names.settle);
}
