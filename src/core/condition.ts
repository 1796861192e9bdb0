// Something that is wrong with a process now, for people who look: what, since when, and what to do about it.

/** As the alerts have it: `critical` is what callers get wrong answers by, `warning` can wait for the morning. */
export type Severity = "critical" | "warning";

/** What a look has found. */
export interface Finding {
  /** The same as long as the same thing is wrong. */
  readonly id: string;
  readonly severity: Severity;
  /** One sentence, or some. */
  readonly says: string;
  /** What to do, in a sentence. */
  readonly advice: string;
  /** A heading of docs/operations.md, as its anchor. */
  readonly see: string;
  /** Places and mistakes, a line each. */
  readonly details?: readonly string[];
}

/** A finding, and when it was first seen; microseconds since the epoch. */
export interface Condition extends Finding {
  readonly sinceUs: number;
}
