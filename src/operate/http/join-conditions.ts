// Joins what is wrong in several processes, and shows it as GET /state does. Pure.

import { isoTime, MICROS_PER_SECOND } from "../../base/units.ts";
import type { Condition, Finding } from "../condition.ts";

/** Shorter differences are not shown: reports of other processes are some seconds old. */
const DIFFER_US = 5 * MICROS_PER_SECOND;

/** What a process reports. */
export interface ProcessState {
  /** Its instance; undefined if it is the only one. */
  readonly name: string | undefined;
  readonly conditions: readonly Condition[];
  readonly rules: { readonly hash: string | null; readonly loadedAtUs?: number | undefined };
}

/** What is wrong, as it is shown. `seen_by` names the processes that report it, if there are several. */
type ConditionView = Omit<Finding, "count" | "causedBy"> & {
  readonly details: readonly string[];
  readonly since: string;
  readonly seen_by?: readonly string[];
};

interface Joined extends Condition {
  readonly seenBy: readonly string[];
}

/**
 * Joins conditions by id. Keeps the earliest time, and what others say differently as details.
 */
export function joinConditions(states: readonly ProcessState[], nowUs: number): readonly Joined[] {
  const joined = new Map<string, Joined>();
  for (const { name, conditions } of states) {
    for (const condition of conditions) {
      const known = joined.get(condition.id);
      const seenBy = name === undefined ? [] : [name];
      joined.set(condition.id, known === undefined ? { ...condition, seenBy } : bothOf(known, condition, seenBy));
    }
  }
  const differing = differingRules(states, nowUs);
  if (differing !== undefined && !joined.has(differing.id)) joined.set(differing.id, { ...differing, seenBy: [] });
  return [...joined.values()].flatMap((condition) => sureOf(condition, states));
}

/** Drops what only some processes report of a condition that all must report. */
function sureOf(condition: Joined, states: readonly ProcessState[]): readonly Joined[] {
  const { id, needsAll, seenBy, details = [] } = condition;
  if (needsAll !== true || seenBy.length === 0) return [condition];
  const subjectOf = (line: string) => line.split("): ", 1)[0];
  const lists = states.map((state) => state.conditions.find((one) => one.id === id)?.details?.map(subjectOf) ?? []);
  const sure = details.filter((line, i) => {
    const isFirst = details.findIndex((other) => subjectOf(other) === subjectOf(line)) === i;
    return isFirst && lists.every((list) => list.includes(subjectOf(line)));
  });
  return sure.length === 0 ? [] : [{ ...condition, details: sure }];
}

/** Makes symptoms details of their causes, and puts the most urgent first. */
export function viewConditions(conditions: readonly Joined[]): readonly ConditionView[] {
  const found = new Map(conditions.map((condition) => [condition.id, condition]));
  const shown = new Map(found);
  for (const symptom of conditions) {
    const cause = shown.get(rootOf(symptom, found).id);
    if (cause === undefined || cause.id === symptom.id) continue;
    shown.delete(symptom.id);
    const told = [saysOf(symptom), ...(symptom.details ?? [])];
    shown.set(cause.id, { ...cause, details: [...(cause.details ?? []), ...told] });
  }
  return inOrder([...shown.values()]).map(viewOf);
}

/** Follows `causedBy` to its end. Reports of other processes may contain a cycle, so the number of steps is bounded. */
function rootOf(symptom: Joined, found: ReadonlyMap<string, Joined>, stepsMax = found.size): Joined {
  const cause = found.get(symptom.causedBy ?? "");
  return cause === undefined || stepsMax === 0 ? symptom : rootOf(cause, found, stepsMax - 1);
}

/** Critical before warning, then causes before counted symptoms, then the oldest first. */
function inOrder(conditions: readonly Joined[]): readonly Joined[] {
  const rank = ({ severity, count }: Joined) => (severity === "critical" ? 0 : 2) + (count === undefined ? 0 : 1);
  return conditions.toSorted((one, other) => rank(one) - rank(other) || one.sinceUs - other.sinceUs);
}

function bothOf(known: Joined, condition: Condition, seenBy: readonly string[]): Joined {
  const { count, says, severity, sinceUs, details = [] } = condition;
  const differs = count === undefined && says !== known.says ? [`${seenBy.join()}: ${says}`] : [];
  return {
    ...known,
    ...(count === undefined ? {} : { count: count + (known.count ?? 0) }),
    severity: severity === "critical" ? severity : known.severity,
    sinceUs: Math.min(sinceUs, known.sinceUs),
    details: [...new Set([...(known.details ?? []), ...details, ...differs])],
    seenBy: [...known.seenBy, ...seenBy],
  };
}

function saysOf({ count, says }: Condition): string {
  return count === undefined ? says : `${count} ${says}`;
}

function viewOf(condition: Joined): ConditionView {
  const { id, severity, advice, see, details = [], sinceUs, seenBy } = condition;
  const said = { id, severity, says: saysOf(condition), advice, see, details, since: isoTime(sinceUs) };
  return seenBy.length === 0 ? said : { ...said, seen_by: seenBy };
}

function differingRules(states: readonly ProcessState[], nowUs: number): Condition | undefined {
  const byHash = new Map<string, string[]>();
  const loadedUs: number[] = [];
  for (const { name, rules } of states) {
    if (rules.hash === null || name === undefined) continue;
    byHash.set(rules.hash, [...(byHash.get(rules.hash) ?? []), name]);
    loadedUs.push(rules.loadedAtUs ?? nowUs);
  }
  const sinceUs = Math.max(...loadedUs);
  // The others may be loading the same set right now.
  if (byHash.size < 2 || Math.abs(nowUs - sinceUs) < DIFFER_US) return undefined;
  return {
    id: "rules differ",
    severity: "warning",
    says: "Different rules are in force.",
    advice: "A new set has not reached all, or some rejected it: see the log. SIGHUP makes a process reload.",
    see: "headgaterulesdiffer",
    details: [...byHash].map(([hash, names]) => `${hash.slice(0, 12)}: ${names.join(", ")}`),
    // The sets were equal until the newest of them was loaded.
    sinceUs,
  };
}
