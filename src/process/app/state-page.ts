// Gathers what GET /state shows, of this process or of all workers.

import { hostname } from "node:os";
import { runInTurns } from "../../engine/base/long-work.ts";
import { isoTime } from "../../engine/base/units.ts";
import { textOf } from "../../engine/domain/request.ts";
import type { Condition } from "../../operate/condition.ts";
import { joinConditions, type ProcessState } from "../../operate/http/join-conditions.ts";
import { ruleRows } from "../../operate/http/rule-rows.ts";
import type { HistoryView } from "../../operate/telemetry/rate-history.ts";
import type { WorkerView } from "../workers/worker-link.ts";
import type { AppParts } from "./app-parts.ts";
import { tlsView } from "./tls-watch.ts";
import { limitsKept, shownWorkers } from "./worker-service.ts";

/** Most domains in the answer; the page offers them for questions to /explain. */
const DOMAINS_MAX = 200;

/** Makes the JSON of GET /state, which the operator's page reads. `conditions` are those of this thread. */
export async function readState(parts: AppParts, conditions: readonly Condition[]) {
  const { link, clock, reloader, settings, version, running, xds, calls, statsBook } = parts;
  const views = await link?.views();
  const { current } = reloader;
  const { loadedAtUs } = reloader.status();
  const nowUs = clock.nowUs();
  const { inForce, changedUs, changes } = await parts.runtimeLimits.source.counts();
  const kept = views === undefined ? limitsKept(parts) : views.find(({ limits }) => limits !== undefined)?.limits;
  const joined = joinConditions(statesOf(parts, conditions, views), nowUs);
  return {
    at: isoTime(nowUs),
    /** Differs when another process answers, or when the process was restarted. */
    instance: `${hostname()}:${process.pid}`,
    version,
    store: settings.backendType,
    status: joined[0]?.severity ?? "well",
    conditions: joined,
    /** Since the start; workers that have ended count too. */
    calls: {
      allowed: calls.allowed.sumOfAll(),
      refused: calls.refused.sumOfAll(),
      degraded: calls.sum("degradedCalls"),
      errors: calls.storeErrors() + calls.serviceErrors(),
    },
    rules: {
      version: current?.version ?? null,
      hash: current?.hash ?? null,
      loaded_at: loadedAtUs === undefined ? null : isoTime(loadedAtUs),
      /** The origin of the rules, in words. */
      source:
        xds === undefined ? `the files in ${settings.rulesDir}` : `the control plane at ${xds.xdsStatus().server}`,
      domains: [...(current?.domains.keys() ?? [])].slice(0, DOMAINS_MAX).map(textOf),
      ...(await runInTurns(
        ruleRows(current, {
          countOf: ({ stats }) => statsBook.countOf(stats),
          sightOf: (limit) => parts.limitWatch.sightOf(limit),
        }),
      )),
    },
    /** Descriptors that have met no rule since the start, by domain. */
    unmatched: [...calls.domains.entries()].map(({ domain, descriptors }) => ({ domain, descriptors })),
    /** Calls of the last day that passed without a decision, by cause, and limits that had no say. */
    undecided: { causes: parts.undecided.list(nowUs), limits: parts.undecided.limits() },
    /** Of limits that work as written, though perhaps not as meant; for `headgate doctor`. */
    information: parts.limitWatch.information,
    /** Whether GET /top has something to show (TOP_KEYS). */
    keeps_top_keys: parts.topKeys !== undefined,
    /** Limits at run time by kind, and what keeps them from being up to date; `changes` grows with each change. */
    runtime_limits: {
      in_force: inForce,
      changed_at: changedUs === undefined ? null : isoTime(changedUs),
      changes,
      failures: kept?.failures ?? null,
      last_failure: kept?.trouble ?? null,
    },
    certificate: tlsView(running.tls) ?? null,
    ...(link && views && { answered_by: link.number, workers: shownWorkers(parts, views) }),
  };
}

/** Makes the JSON of GET /history; without a sample, null. */
export async function readHistory({ link, history }: AppParts): Promise<HistoryView | null> {
  const views = await link?.ask({ about: "history" });
  const known = [...(views?.values() ?? [history.view()])].filter((view) => view !== undefined);
  // A worker that took samples while another was replaced has older ones.
  return known.toSorted((one, other) => (one.at < other.at ? 1 : -1))[0] ?? null;
}

/** What each worker says is wrong, or this thread if it is the only one. */
function statesOf(
  { reloader }: AppParts,
  conditions: readonly Condition[],
  views: readonly WorkerView[] | undefined,
): readonly ProcessState[] {
  if (views === undefined) return [{ worker: undefined, conditions, rules: { hash: reloader.current?.hash ?? null } }];
  return views.map(({ worker, conditions: own = [], rules = { hash: null } }) => ({ worker, conditions: own, rules }));
}
