// The report of a simulation. Field names are those of the JSON report; docs/simulate.md explains them.

import { isoTime } from "../../base/units.ts";
import { textOf } from "../../engine/domain/request.ts";
import { limitWords } from "../../engine/rules/limit-words.ts";
import type { LimitTally } from "./limit-tally.ts";
import type { Simulation, Timeline } from "./simulation.ts";

/** Callers named per limit. */
const WORST_MAX = 5;

/** The report of a run. */
export type SimulationReport = ReturnType<typeof reportOf>;

/** The part of one limit. */
export type LimitOutcome = ReturnType<typeof limitReport>;

/** Gathers the report of all calls so far. */
export function reportOf(simulation: Simulation) {
  const { service, old, timeline, unmatched, limitsMet } = simulation;
  return {
    calls: {
      read: timeline.calls,
      allowed: simulation.allowed,
      refused: simulation.refused,
      /** Passed only because of a shadow rule or SHADOW_MODE. */
      shadowed: simulation.shadowed,
      /** Requests that the service answers with an error, by its code. */
      rejected: Object.fromEntries(service.rejected),
      /** Calls that a sliding log could not decide for lack of memory. */
      undecided: simulation.undecided,
    },
    time: timeReport(timeline),
    limits: [...new Set(simulation.tallies())].map((tally) => limitReport(tally, simulation)),
    unmatched: {
      descriptors: unmatched.descriptors,
      shapes: unmatched.list(),
      of_further_shapes: unmatched.others,
    },
    /** Buckets dropped for lack of memory before they had expired; above 0 the figures are lenient. */
    evicted_buckets: service.evicted,
    /** Null without --limits. */
    runtime_limits: service.limitCount === undefined ? null : { given: service.limitCount, met: limitsMet.list() },
    /** Null without --against and --limits. */
    changes: old === undefined ? null : changesReport(simulation.changes, old),
    refusals: simulation.refusals.told,
  };
}

function timeReport({ calls, firstUs, lastUs, late, lateUsMax, gaps, longestGapUs, longestGapFromUs }: Timeline) {
  return {
    /** Null without calls. */
    from: calls === 0 ? null : isoTime(firstUs),
    to: calls === 0 ? null : isoTime(lastUs),
    /** Calls recorded after a later call; decided at the later call's time. */
    late,
    late_seconds_max: lateUsMax / 1_000_000,
    /** Silences of a minute or more. */
    gaps,
    longest_gap_seconds: longestGapUs / 1_000_000,
    longest_gap_from: longestGapUs === 0 ? null : isoTime(longestGapFromUs),
  };
}

function changesReport(changes: Simulation["changes"], old: NonNullable<Simulation["old"]>) {
  return {
    refused_by_both: changes.refusedByBoth,
    /**
     * Requests that the service answers with an error under the old rules, by its code; in none of the other numbers.
     */
    rejected_by_old: Object.fromEntries(old.rejected),
    newly_refused: { calls: changes.newlyRefused.calls, limits: changes.newlyRefused.list() },
    newly_allowed: { calls: changes.newlyAllowed.calls, limits: changes.newlyAllowed.list() },
  };
}

function limitReport(tally: LimitTally, simulation: Simulation) {
  const { limit, asked, refused, firstRefusal, needed } = tally;
  const longest = tally.longest();
  return {
    /** `domain/path#name`. */
    limit: textOf(limit.names.id),
    words: textOf(limitWords(limit)),
    asked,
    allowed: asked - refused,
    refused,
    /** Reports of post-paid hits, refunds and settlements, which are never refused. */
    reported: tally.reported,
    callers: tally.callers,
    callers_refused: tally.refusedCallers,
    /** False: the two numbers of callers are lower bounds. */
    callers_exact: tally.countsAllCallers,
    first_refusal: firstRefusal && { at: isoTime(firstRefusal.atUs), caller: firstRefusal.caller },
    longest_refusal: longest && {
      caller: longest.label,
      from: isoTime(longest.sinceUs),
      seconds: (longest.untilUs - longest.sinceUs) / 1_000_000,
      calls: longest.refusedSince,
    },
    worst_callers: tally.worst(WORST_MAX).map(({ label, refused: calls }) => ({ caller: label, refused: calls })),
    /** Burst of a bucket, amount of a window. */
    burst: limit.burst,
    /** The smallest that would have refused nobody; null if none would have, or nobody asked. */
    smallest_burst: needed === 0 || !Number.isFinite(needed) ? null : needed,
    /** Null for a limit without holds. */
    holds: simulation.holdsOf(tally, simulation.timeline.lastUs) ?? null,
  };
}
