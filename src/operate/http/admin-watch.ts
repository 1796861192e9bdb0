// Counts requests to the guarded pages, and logs who used or was refused them.

import { countsOf } from "../../base/counts.ts";
import type { Logger } from "../telemetry/logger.ts";
import type { RateLimitedLog } from "../telemetry/rate-limited-log.ts";
import type { Caller } from "./access.ts";

export const ADMIN_ACTIONS = ["explain", "limits", "peek", "reset", "state", "top"] as const;
export type AdminAction = (typeof ADMIN_ACTIONS)[number];
export const ADMIN_OUTCOMES = ["done", "refused", "failed"] as const;
type AdminOutcome = (typeof ADMIN_OUTCOMES)[number];
const ADMIN_EVENTS = ADMIN_ACTIONS.flatMap((action) =>
  ADMIN_OUTCOMES.map((outcome) => `${action} ${outcome}` as const),
);

/** Most buckets in one line of the log. */
const LOGGED_BUCKETS_MAX = 32;

export class AdminWatch {
  readonly #counts = countsOf(ADMIN_EVENTS);
  readonly #logger: Logger;
  readonly #rareLog: RateLimitedLog;

  constructor(logger: Logger, rareLog: RateLimitedLog) {
    this.#logger = logger;
    this.#rareLog = rareLog;
  }

  /** The number of requests with this action and outcome, since the start of the process. */
  of(action: AdminAction, outcome: AdminOutcome): number {
    return this.#counts[`${action} ${outcome}`];
  }

  used(action: AdminAction, isDone: boolean): void {
    this.#counts[`${action} ${isDone ? "done" : "failed"}`]++;
  }

  refused(action: AdminAction, peer: string, reason: string): void {
    this.#counts[`${action} refused`]++;
    this.#rareLog.warn(`admin ${action}`, "an admin page was refused", () => ({ action, peer, reason }));
  }

  /**
   * Logs that buckets were read or reset. A reset changes what callers may do, so it is a warning, which most levels
   * log.
   */
  audited(action: "peek" | "reset", { who, peer }: Caller, domain: string, buckets: readonly object[]): void {
    const more = buckets.length - LOGGED_BUCKETS_MAX;
    const shown = buckets.slice(0, LOGGED_BUCKETS_MAX);
    const fields = { who, peer, domain, buckets: shown, ...(more > 0 ? { more } : {}) };
    if (action === "reset") this.#logger.warn(fields, "buckets were reset");
    else this.#logger.info(fields, "buckets were read");
  }

  /** Logs that a limit at run time was set or unset; a warning, like a reset. */
  limitSet({ who, peer }: Caller, limit: object): void {
    this.#logger.warn({ who, peer, ...limit }, "a limit at run time was changed");
  }
}
