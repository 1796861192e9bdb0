// What is wrong now, of one process or of several workers, as GET /state shows it. Pure.

import { isoTime } from "../../engine/base/units.ts";
import type { Condition, Finding } from "../condition.ts";

/** What one process reports: one of several workers, or the only process. */
export interface ProcessState {
  /** The worker's number; undefined if this process is the only one. */
  readonly worker: number | undefined;
  readonly conditions: readonly Condition[];
  readonly rules: { readonly hash: string | null; readonly loadedAtUs?: number | undefined };
}

/** What is wrong, as it is shown. `workers` has the numbers of the workers that report it, if there are several. */
type ConditionView = Omit<Finding, "count" | "causedBy" | "isOfAll"> & {
  readonly details: readonly string[];
  readonly since: string;
  readonly workers?: readonly number[];
};

interface Joined extends Condition {
  readonly workers: readonly number[];
}

/**
 * A condition that several workers report is shown once, with the time of the worker that saw it first; what others say differently is a
 * detail. So is what another condition explains.
 */
export function joinConditions(processes: readonly ProcessState[], nowUs: number): readonly ConditionView[] {
  const joined = new Map<string, Joined>();
  for (const { worker, conditions } of processes) {
    for (const condition of conditions) {
      const known = joined.get(condition.id);
      const workers = worker === undefined || condition.isOfAll === true ? [] : [worker];
      joined.set(condition.id, known === undefined ? { ...condition, workers } : bothOf(known, condition, workers));
    }
  }
  const found = new Map(joined);
  for (const symptom of found.values()) {
    const cause = joined.get(rootOf(symptom, found).id);
    if (cause === undefined || cause.id === symptom.id) continue;
    joined.delete(symptom.id);
    const told = [saysOf(symptom), ...(symptom.details ?? [])];
    joined.set(cause.id, { ...cause, details: [...(cause.details ?? []), ...told] });
  }
  const differing = differingRules(processes, nowUs);
  return inOrder([...joined.values(), ...(differing === undefined ? [] : [{ ...differing, workers: [] }])]).map(viewOf);
}

/** The condition that explains this one in the end; itself if none does. */
function rootOf(symptom: Joined, found: ReadonlyMap<string, Joined>): Joined {
  const cause = found.get(symptom.causedBy ?? "");
  return cause === undefined ? symptom : rootOf(cause, found);
}

/** Critical conditions before warnings; among these causes before what comes of them, which is counted; among equals the oldest first. */
function inOrder(conditions: readonly Joined[]): readonly Joined[] {
  const rank = ({ severity, count }: Joined) => (severity === "critical" ? 0 : 2) + (count === undefined ? 0 : 1);
  return conditions.toSorted((one, other) => rank(one) - rank(other) || one.sinceUs - other.sinceUs);
}

function bothOf(known: Joined, condition: Condition, workers: readonly number[]): Joined {
  const { count, says, sinceUs, details = [] } = condition;
  if (condition.isOfAll === true) return sinceUs < known.sinceUs ? { ...condition, workers } : known;
  const differs = count === undefined && says !== known.says ? [`worker ${workers.join()}: ${says}`] : [];
  return {
    ...known,
    ...(count === undefined ? {} : { count: count + (known.count ?? 0) }),
    sinceUs: Math.min(sinceUs, known.sinceUs),
    details: [...new Set([...(known.details ?? []), ...details, ...differs])],
    workers: [...known.workers, ...workers],
  };
}

function saysOf({ count, says }: Condition): string {
  return count === undefined ? says : `${count} ${says}`;
}

function viewOf(condition: Joined): ConditionView {
  const { id, severity, advice, see, details = [], sinceUs, workers } = condition;
  const said = { id, severity, says: saysOf(condition), advice, see, details, since: isoTime(sinceUs) };
  return workers.length === 0 ? said : { ...said, workers };
}

function differingRules(processes: readonly ProcessState[], nowUs: number): Condition | undefined {
  const byHash = new Map<string, number[]>();
  const loadedUs: number[] = [];
  for (const { worker, rules } of processes) {
    if (rules.hash === null || worker === undefined) continue;
    byHash.set(rules.hash, [...(byHash.get(rules.hash) ?? []), worker]);
    loadedUs.push(rules.loadedAtUs ?? nowUs);
  }
  if (byHash.size < 2) return undefined;
  const sets = [...byHash].map(([hash, workers]) => `${hash.slice(0, 12)}: worker ${workers.join(", ")}`);
  return {
    id: "rules differ",
    severity: "warning",
    says: "Workers use different rules.",
    advice: "A new set has not reached all of them, or some rejected it: see the log. SIGHUP makes all of them reload.",
    see: "headgaterulesdiffer",
    details: sets,
    // The sets were equal until the newest of them was loaded.
    sinceUs: Math.max(...loadedUs),
  };
}
