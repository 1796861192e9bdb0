// Joins what is wrong in several processes, and shows it as GET /state does. Pure.

import { getOrInsert } from "../../base/get-or-insert.ts";
import { isoTime, MICROS_PER_SECOND } from "../../base/units.ts";
import type { Condition, Finding } from "../condition.ts";
import { sumOfUndecided } from "../telemetry/undecided-calls.ts";

/** Shorter differences are not shown: reports of other processes are some seconds old. */
const DIFFER_US = 5 * MICROS_PER_SECOND;

/** What a process reports. */
export interface ProcessState {
  /** Its instance; undefined if it is the only one. */
  readonly name: string | undefined;
  readonly conditions: readonly Condition[];
  readonly rules: { readonly hash: string | null; readonly loadedAtUs?: number | undefined };
}

/** What one of several processes says. */
interface Told {
  readonly process: string;
  readonly details: readonly string[];
}

/** What is wrong, as it is shown. `seen_by` names the processes that report it, if there are several. */
export type ConditionView = Omit<Finding, "count" | "causedBy"> & {
  readonly details: readonly string[];
  readonly since: string;
  readonly seen_by?: readonly string[];
  /** What each of several says of it. */
  readonly by_process?: readonly Told[];
  /** What callers notice of it. */
  readonly effect?: string;
};

interface Joined extends Condition {
  readonly seenBy: readonly string[];
  readonly told: readonly Told[];
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
      const told = seenBy.map((process) => ({ process, details: linesOf(condition) }));
      const own = { ...condition, seenBy, told };
      joined.set(condition.id, known === undefined ? own : bothOf(known, own));
    }
  }
  const differing = differingRules(states, nowUs);
  if (differing !== undefined && !joined.has(differing.id))
    joined.set(differing.id, { ...differing, seenBy: [], told: [] });
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
  return sure.length === 0 ? [] : [{ ...condition, details: sure, told: [] }];
}

/** Makes symptoms details of their causes, and puts the most urgent first. */
export function viewConditions(conditions: readonly Joined[]): readonly ConditionView[] {
  const found = new Map(conditions.map((condition) => [condition.id, condition]));
  const shown = new Map(found);
  for (const symptom of conditions) {
    const cause = shown.get(rootOf(symptom, found).id);
    if (cause === undefined || cause.id === symptom.id) continue;
    shown.delete(symptom.id);
    shown.set(cause.id, {
      ...cause,
      details: [...(cause.details ?? []), ...linesOf(symptom)],
      told: toldBy([...cause.told, ...symptom.told]),
      ...callsOf(cause, symptom),
    });
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

/** Each process once, with all that it says. */
function toldBy(all: readonly Told[]): readonly Told[] {
  const lines = new Map<string, string[]>();
  for (const { process, details } of all) getOrInsert(lines, process, () => []).push(...details);
  return [...lines].map(([process, details]) => ({ process, details }));
}

function callsOf({ calls: one = [] }: Condition, { calls: other = [] }: Condition): Pick<Condition, "calls"> {
  return one.length + other.length === 0 ? {} : { calls: sumOfUndecided(one, other) };
}

function linesOf(condition: Condition): readonly string[] {
  return [saysOf(condition), ...(condition.details ?? [])];
}

function bothOf(known: Joined, condition: Joined): Joined {
  const { count, says, severity, sinceUs, details = [], seenBy } = condition;
  const differs = count === undefined && says !== known.says ? [`${seenBy.join()}: ${says}`] : [];
  return {
    ...known,
    ...(count === undefined ? {} : { count: count + (known.count ?? 0) }),
    severity: severity === "critical" ? severity : known.severity,
    sinceUs: Math.min(sinceUs, known.sinceUs),
    details: [...new Set([...(known.details ?? []), ...details, ...differs])],
    seenBy: [...known.seenBy, ...seenBy],
    told: [...known.told, ...condition.told],
    ...callsOf(known, condition),
  };
}

function saysOf({ count, says }: Condition): string {
  return count === undefined ? says : `${says}: ${count.toLocaleString("en")}; the last within a minute.`;
}

function viewOf(condition: Joined): ConditionView {
  const { id, severity, advice, see, details = [], calls, sinceUs, seenBy, told } = condition;
  const said = { id, severity, says: saysOf(condition), advice, see, details, since: isoTime(sinceUs) };
  const shown = calls === undefined ? said : { ...said, calls };
  if (seenBy.length === 0) return shown;
  return { ...shown, seen_by: seenBy, ...(told.length > 1 ? { by_process: told } : {}) };
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
