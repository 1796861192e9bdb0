// Counts requests to the guarded admin pages, by action and outcome.

export const ADMIN_ACTIONS = ["explain", "peek", "reset", "state", "top"] as const;
export type AdminAction = (typeof ADMIN_ACTIONS)[number];
export const ADMIN_OUTCOMES = ["done", "refused", "failed"] as const;
export type AdminOutcome = (typeof ADMIN_OUTCOMES)[number];

/** The counters, since the start of the process. */
export class AdminCounts {
  readonly #counts = new Float64Array(ADMIN_ACTIONS.length * ADMIN_OUTCOMES.length);

  count(action: AdminAction, outcome: AdminOutcome): void {
    const at = placeOf(action, outcome);
    this.#counts[at] = (this.#counts[at] ?? 0) + 1;
  }

  /** The number of requests with this action and outcome. */
  of(action: AdminAction, outcome: AdminOutcome): number {
    return this.#counts[placeOf(action, outcome)] ?? 0;
  }
}

function placeOf(action: AdminAction, outcome: AdminOutcome): number {
  return ADMIN_ACTIONS.indexOf(action) * ADMIN_OUTCOMES.length + ADMIN_OUTCOMES.indexOf(outcome);
}
