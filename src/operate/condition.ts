// A problem that a process has now: what is wrong, since when, and what to do.

/** The levels of the alerts. `critical`: callers get wrong answers. `warning`: it can wait for the morning. */
type Severity = "critical" | "warning";

/** Calls that passed without a decision for one cause. */
export interface Undecided {
  readonly cause: string;
  readonly last_hour: number;
  readonly last_day: number;
  /** The first and the last such call of the day, to a second. */
  readonly first_at: string;
  readonly last_at: string;
}

/** A problem that one check of the process found. */
export interface Finding {
  /** Identifies the problem: equal in all checks for as long as the problem lasts. */
  readonly id: string;
  readonly severity: Severity;
  /** What is wrong, in one or more sentences; with a `count`, what is counted. */
  readonly says: string;
  /** How often it happened, for events that are counted. */
  readonly count?: number;
  /** The id of the problem that explains this one; if that is found too, this one becomes its detail. */
  readonly causedBy?: string;
  /** What to do, in a sentence. */
  readonly advice: string;
  /** Anchor of a heading in docs/operations.md. */
  readonly see: string;
  /** Places and mistakes, one per line. */
  readonly details?: readonly string[];
  /** Calls that passed undecided, by cause. */
  readonly calls?: readonly Undecided[];
  /**
   * True: of several processes all must report it, and of its details those count of which all have the part before `):
   * `.
   */
  readonly needsAll?: boolean;
}

/** A finding, and when it was first seen; microseconds since the epoch. */
export interface Condition extends Finding {
  readonly sinceUs: number;
}
