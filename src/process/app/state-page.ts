// Gathers what GET /state shows, of this process or of all workers.

import { hostname } from "node:os";
import { runInTurns } from "../../engine/base/long-work.ts";
import { isoTime } from "../../engine/base/units.ts";
import type { Limit } from "../../engine/domain/limit.ts";
import { textOf } from "../../engine/domain/request.ts";
import type { RuleCount } from "../../engine/domain/stats.ts";
import type { Condition } from "../../operate/condition.ts";
import { joinConditions, type ProcessState } from "../../operate/http/join-conditions.ts";
import { ruleRows } from "../../operate/http/rule-rows.ts";
import type { StateView } from "../../operate/http/state-json.ts";
import { METRICS } from "../../operate/telemetry/metrics.ts";
import {
  FleetRuleCounts,
  RULE_COUNT_METRICS,
  ruleCount,
  type SeriesValues,
} from "../../operate/telemetry/rule-counts.ts";
import type { WorkerLink } from "../workers/worker-link.ts";
import type { AppParts } from "./app-parts.ts";
import { tlsView } from "./tls-watch.ts";
import { workerView } from "./worker-service.ts";

const { decisions, degraded, requestErrors, unmatched } = METRICS;
const ASKED = [...RULE_COUNT_METRICS, decisions.name, degraded.name, requestErrors.name, unmatched.name];

/** Most domains in the answer; the page offers them for questions to /explain. */
const DOMAINS_MAX = 200;

/** What other workers contribute to. */
interface Together extends Pick<StateView, "calls" | "unmatched" | "answered_by" | "workers"> {
  readonly processes: readonly ProcessState[];
  readonly countOf: (limit: Limit) => RuleCount;
}

/** Makes the JSON of GET /state. `conditions` are those of this process. */
export async function readState(parts: AppParts, own: readonly Condition[]): Promise<StateView> {
  const { link, clock, reloader, settings, version, running, xds } = parts;
  const { processes, countOf, calls, unmatched, ...workers } =
    link === undefined ? alone(parts, own) : await fleet(parts, link);
  const { current } = reloader;
  const { loadedAtUs } = reloader.status();
  const nowUs = clock.nowUs();
  const conditions = joinConditions(processes, nowUs);
  return {
    at: isoTime(nowUs),
    instance: `${hostname()}:${process.pid}`,
    version,
    store: settings.backendType,
    status: conditions[0]?.severity ?? "well",
    conditions,
    calls,
    rules: {
      version: current?.version ?? null,
      hash: current?.hash ?? null,
      loaded_at: loadedAtUs === undefined ? null : isoTime(loadedAtUs),
      source:
        xds === undefined ? `the files in ${settings.rulesDir}` : `the control plane at ${xds.xdsStatus().server}`,
      domains: [...(current?.domains.keys() ?? [])].slice(0, DOMAINS_MAX).map(textOf),
      ...(await runInTurns(ruleRows(current, countOf))),
    },
    unmatched,
    keeps_top_keys: parts.topKeys !== undefined,
    certificate: tlsView(running.tls) ?? null,
    ...workers,
  };
}

function alone(parts: AppParts, conditions: readonly Condition[]): Together {
  const { calls, statsBook, reloader } = parts;
  const rules = { hash: reloader.current?.hash ?? null };
  return {
    processes: [{ worker: undefined, conditions, rules }],
    calls: {
      allowed: calls.allowed.sumOfAll(),
      refused: calls.refused.sumOfAll(),
      degraded: calls.sum("degradedCalls"),
      errors: calls.storeErrors() + calls.serviceErrors(),
    },
    countOf: ({ stats }) => ruleCount(statsBook, stats),
    unmatched: [...calls.unmatched.entries()].map(({ domain, descriptors }) => ({ domain, descriptors })),
  };
}

async function fleet(parts: AppParts, link: WorkerLink): Promise<Together> {
  const [views, counts] = await Promise.all([link.views(), link.fleetCounts(ASKED)]);
  const rules = new FleetRuleCounts(counts, parts.statsBook);
  const decided = Object.entries(counts[decisions.name] ?? {});
  const withOutcome = (outcome: string) => decided.filter(([series]) => series.includes(`outcome="${outcome}"`));
  return {
    processes: views.map((view) => ({
      worker: view.worker,
      conditions: view.conditions ?? [],
      rules: view.rules ?? { hash: null },
    })),
    answered_by: link.number,
    workers: views.map(workerView),
    calls: {
      allowed: sumOf(withOutcome("allowed").map(([, value]) => value)),
      refused: sumOf(withOutcome("refused").map(([, value]) => value)),
      degraded: sumOf(valuesOf(counts, degraded.name)),
      errors: sumOf(valuesOf(counts, requestErrors.name)),
    },
    countOf: ({ stats }) => rules.of(stats),
    unmatched: Object.entries(counts[unmatched.name] ?? {}).map(([series, descriptors]) => ({
      domain: labelOf(series),
      descriptors,
    })),
  };
}

function sumOf(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0);
}

function valuesOf(counts: SeriesValues, metric: string): readonly number[] {
  return Object.values(counts[metric] ?? {});
}

/** The value of a series' only label, without the escapes of the Prometheus text format. */
function labelOf(series: string): string {
  const written = /="(.*)"\}$/s.exec(series)?.[1] ?? "";
  return written.replace(/\\(.)/g, (_, char: string) => (char === "n" ? "\n" : char));
}
