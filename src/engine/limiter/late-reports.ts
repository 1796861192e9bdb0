// Finds limits that never refuse although callers report what they use. What a refused call costs is not charged, and
// what is always charged refuses nobody unless somebody asks before. A suspicion, from the takes of the limit.

import { ReportTurns } from "../domain/report-turns.ts";
import { isOver, Mode, Outcome, type Take } from "../domain/take.ts";
import type { LimitCall } from "./call.ts";
import { isJudge, wasDenied } from "./decision.ts";
import type { LimiterObserver, MissingForReports } from "./limiter-observer.ts";

/** So many times the limit must have been reported without a peek: the latest peek may have gone to another process. */
const UNASKED = 2;

/** Tells of reports that were not recorded, and of what looks like reports that make no limit refuse. */
export function tellOddReports(call: LimitCall, observer: LimiterObserver): void {
  for (let i = 0; i < call.group.size; i++) {
    const { limit, cappedHits } = call.group.takes[i] as Take;
    if (cappedHits > 0) observer.debtCapped(limit.names.id, cappedHits);
    const missing = missingForReports(call, i);
    // With holds a large refused cost is an estimate, asked before the work.
    if (missing !== undefined && limit.holdSeconds === 0) observer.suspectedReport(limit.names.id, missing);
  }
}

/** What a settled take shows to be missing; undefined if nothing is. */
function missingForReports(call: LimitCall, index: number): MissingForReports | undefined {
  const take = call.group.takes[index] as Take;
  if (take.outcome === Outcome.unanswered || wasDenied(take)) return undefined;
  if (take.mode === Mode.pay) return missingForPayment(take);
  if (take.mode !== Mode.postPaid || take.remaining > 0 || (index > 0 && isJudge(call, index - 1))) return undefined;
  const { stats, burst } = take.limit;
  return stats.wasPeeked || stats.totalHits < UNASKED * burst ? undefined : "asking";
}

function missingForPayment(take: Take): MissingForReports | undefined {
  const { stats } = take.limit;
  const isRefused = isOver(take);
  if (isRefused && take.cost > 1) {
    if (stats.wasPeeked) return "post_paid";
    stats.turns ??= new ReportTurns();
  }
  return stats.turns?.note(take.keyHash, take.cost, isRefused) === true ? "charge_given_hits" : undefined;
}
