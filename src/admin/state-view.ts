// Makes the JSON of GET /state, which the operator's page shows: what is wrong now, and the counters. Pure.

import type { Condition } from "../core/condition.ts";
import { isoTime } from "../core/units.ts";
import { inOrder } from "./condition-book.ts";
import type { CallTotals, ConditionView, RulesInForce, StateView } from "./state-json.ts";

/** What one process reports: one of several workers, or the only process. */
export interface ProcessState {
  /** The worker's number; undefined if this process is the only one. */
  readonly worker: number | undefined;
  readonly conditions: readonly Condition[];
  readonly rules: { readonly hash: string | null; readonly loadedAtUs?: number | undefined };
  /** The worker's row on the page, as JSON. */
  readonly shown?: Readonly<Record<string, unknown>>;
}

/** What `stateView` is made of. */
export interface StateFacts {
  readonly nowUs: number;
  readonly instance: string;
  readonly version: string;
  readonly store: string;
  /** The number of the worker that answers; undefined if this process is the only one. */
  readonly answeredBy: number | undefined;
  readonly processes: readonly ProcessState[];
  readonly calls: CallTotals;
  readonly rules: RulesInForce;
  readonly unmatched: StateView["unmatched"];
  readonly keepsTopKeys: boolean;
  readonly certificate: StateView["certificate"];
}

/** Puts the JSON together. */
export function stateView(facts: StateFacts): StateView {
  const { nowUs, instance, version, store, processes, calls, rules, unmatched, certificate, answeredBy, keepsTopKeys } =
    facts;
  const conditions = joinConditions(processes, nowUs);
  return {
    at: isoTime(nowUs),
    instance,
    version,
    store,
    status: conditions[0]?.severity ?? "well",
    conditions,
    calls,
    rules,
    unmatched,
    keeps_top_keys: keepsTopKeys,
    certificate,
    ...(answeredBy === undefined
      ? {}
      : { answered_by: answeredBy, workers: processes.flatMap(({ shown }) => (shown === undefined ? [] : [shown])) }),
  };
}

/** A condition that several workers report in the same words is shown once, with the time of the worker that saw it first. */
function joinConditions(processes: readonly ProcessState[], nowUs: number): readonly ConditionView[] {
  const joined = new Map<string, { condition: Condition; workers: number[] }>();
  for (const { worker, conditions } of processes) {
    for (const condition of conditions) {
      const key = JSON.stringify([condition.id, condition.says]);
      const known = joined.get(key) ?? { condition, workers: [] };
      if (condition.sinceUs < known.condition.sinceUs) known.condition = condition;
      if (worker !== undefined) known.workers.push(worker);
      joined.set(key, known);
    }
  }
  const workersOf = new Map([...joined.values()].map(({ condition, workers }) => [condition, workers]));
  const differing = differingRules(processes, nowUs);
  const all = inOrder([...workersOf.keys(), ...(differing === undefined ? [] : [differing])]);
  return all.map((condition) => viewOf(condition, workersOf.get(condition) ?? []));
}

function viewOf({ sinceUs, details, ...finding }: Condition, workers: readonly number[]): ConditionView {
  const said = { ...finding, details: details ?? [], since: isoTime(sinceUs) };
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
    says: "Workers decide by different rules.",
    advice:
      "A new set has not reached all of them, or some refuse it: the log says why. SIGHUP has all read them again.",
    see: "headgaterulesdiffer",
    details: sets,
    // The sets were equal until the newest of them was loaded.
    sinceUs: Math.max(...loadedUs),
  };
}
