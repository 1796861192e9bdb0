// The report of a simulation. Field names are those of the JSON report; docs/simulate.md explains them.

import { isoTime } from "../../engine/base/units.ts";
import { textOf } from "../../engine/domain/request.ts";
import { limitWords } from "../../engine/rules/explain-words.ts";
import { type ChangedCall, type ChangedLimit, type EditedLimit, editedLimits } from "./changes.ts";
import type { HoldReport } from "./hold-tally.ts";
import type { LimitTally } from "./limit-tally.ts";
import type { ShownRefusal } from "./refusals.ts";
import type { Simulation } from "./simulation.ts";
import type { UnmatchedShape } from "./unmatched-shapes.ts";

/** Callers named per limit. */
const WORST_MAX = 5;

export interface SimulationReport {
  readonly calls: {
    readonly read: number;
    readonly allowed: number;
    readonly refused: number;
    /** Passed only because of a shadow rule or SHADOW_MODE. */
    readonly shadowed: number;
    /** Requests that the service answers with an error, by its code. */
    readonly rejected: Readonly<Record<string, number>>;
    /** Calls that a sliding log could not decide for lack of memory. */
    readonly undecided: number;
  };
  readonly time: {
    /** Null without calls. */
    readonly from: string | null;
    readonly to: string | null;
    /** Calls recorded after a later call; decided at the later call's time. */
    readonly late: number;
    readonly late_seconds_max: number;
    /** Silences of a minute or more. */
    readonly gaps: number;
    readonly longest_gap_seconds: number;
    readonly longest_gap_from: string | null;
  };
  readonly limits: readonly LimitReport[];
  readonly unmatched: {
    readonly descriptors: number;
    readonly shapes: readonly UnmatchedShape[];
    readonly of_further_shapes: number;
  };
  /** Buckets dropped for lack of memory before they had expired; above 0 the figures are lenient. */
  readonly evicted_buckets: number;
  /** Null without --against. */
  readonly changes: ChangesReport | null;
  readonly refusals: readonly ShownRefusal[];
}

export interface LimitReport {
  /** `domain/path#name`. */
  readonly limit: string;
  readonly words: string;
  readonly asked: number;
  readonly allowed: number;
  readonly refused: number;
  /** Reports of post-paid hits, refunds and settlements, which are never refused. */
  readonly reported: number;
  readonly callers: number;
  readonly callers_refused: number;
  /** False: the two numbers of callers are lower bounds. */
  readonly callers_exact: boolean;
  readonly first_refusal: { readonly at: string; readonly caller: string } | null;
  readonly longest_refusal: {
    readonly caller: string;
    readonly from: string;
    readonly seconds: number;
    readonly calls: number;
  } | null;
  readonly worst_callers: readonly { readonly caller: string; readonly refused: number }[];
  /** Burst of a bucket, amount of a window. */
  readonly burst: number;
  /** The smallest that would have refused nobody; null if none would have, or nobody asked. */
  readonly smallest_burst: number | null;
  /** Null for a limit without holds. */
  readonly holds: HoldReport | null;
}

interface ChangesReport {
  readonly refused_by_both: number;
  /** Requests that the service answers with an error under the old rules, by its code; in none of the other numbers. */
  readonly rejected_by_old: Readonly<Record<string, number>>;
  readonly newly_refused: { readonly calls: number; readonly limits: readonly ChangedLimit[] };
  readonly newly_allowed: { readonly calls: number; readonly limits: readonly ChangedLimit[] };
  readonly edited: readonly EditedLimit[];
  readonly first_changed: readonly ChangedCall[];
}

/** Gathers the report of all calls so far. */
export function reportOf(simulation: Simulation): SimulationReport {
  const { timeline, unmatched, changes, against } = simulation;
  const isEmpty = timeline.calls === 0;
  return {
    calls: {
      read: timeline.calls,
      allowed: simulation.allowed,
      refused: simulation.refused,
      shadowed: simulation.shadowed,
      rejected: Object.fromEntries(simulation.rejected),
      undecided: simulation.undecided,
    },
    time: {
      from: isEmpty ? null : isoTime(timeline.firstUs),
      to: isEmpty ? null : isoTime(timeline.lastUs),
      late: timeline.late,
      late_seconds_max: timeline.lateUsMax / 1_000_000,
      gaps: timeline.gaps,
      longest_gap_seconds: timeline.longestGapUs / 1_000_000,
      longest_gap_from: timeline.longestGapUs === 0 ? null : isoTime(timeline.longestGapFromUs),
    },
    limits: [...new Set(simulation.tallies())].map((tally) => limitReport(tally, timeline.lastUs)),
    unmatched: {
      descriptors: unmatched.descriptors,
      shapes: unmatched.list(),
      of_further_shapes: unmatched.others,
    },
    evicted_buckets: simulation.evicted,
    changes:
      against === undefined
        ? null
        : {
            refused_by_both: changes.refusedByBoth,
            rejected_by_old: Object.fromEntries(changes.rejectedByOld),
            newly_refused: { calls: changes.newlyRefused.calls, limits: changes.newlyRefused.list() },
            newly_allowed: { calls: changes.newlyAllowed.calls, limits: changes.newlyAllowed.list() },
            edited: editedLimits(simulation.ruleSet, against),
            first_changed: changes.examples,
          },
    refusals: simulation.refusals.told,
  };
}

function limitReport(tally: LimitTally, endUs: number): LimitReport {
  const { limit, asked, refused, firstRefusal, needed } = tally;
  const longest = tally.longest();
  return {
    limit: textOf(limit.names.id),
    words: textOf(limitWords(limit)),
    asked,
    allowed: asked - refused,
    refused,
    reported: tally.reported,
    callers: tally.callers,
    callers_refused: tally.refusedCallers,
    callers_exact: tally.countsAllCallers,
    first_refusal: firstRefusal === undefined ? null : { at: isoTime(firstRefusal.atUs), caller: firstRefusal.caller },
    longest_refusal:
      longest === undefined
        ? null
        : {
            caller: longest.caller,
            from: isoTime(longest.fromUs),
            seconds: (longest.untilUs - longest.fromUs) / 1_000_000,
            calls: longest.calls,
          },
    worst_callers: tally.worst(WORST_MAX).map(({ label, refused: calls }) => ({ caller: label, refused: calls })),
    burst: limit.burst,
    smallest_burst: needed === 0 || !Number.isFinite(needed) ? null : needed,
    holds: tally.holds?.report(endUs) ?? null,
  };
}
