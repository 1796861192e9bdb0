// Gathers what GET /state shows, of this process and the others that share its store.

import { DayClock } from "../../base/clock.ts";
import { sumOf } from "../../base/counts.ts";
import { runInTurns } from "../../base/long-work.ts";
import { isoTime } from "../../base/units.ts";
import { textOf } from "../../engine/domain/request.ts";
import type { Condition } from "../../operate/condition.ts";
import { joinConditions, type ProcessState, viewConditions } from "../../operate/http/join-conditions.ts";
import { ruleRows } from "../../operate/http/rule-rows.ts";
import type { ProcessRates } from "../../operate/telemetry/deployment.ts";
import type { AppParts } from "./app-parts.ts";
import { INSTANCE } from "./peers.ts";
import { ownState } from "./publish-report.ts";
import { tlsView } from "./tls-watch.ts";

/** Most domains in the answer; the page offers them for questions to /explain. */
const DOMAINS_MAX = 200;

/**
 * Makes the JSON of GET /state, which the operator's page reads. `conditions` are this process's; a `scope` leaves
 * other processes out.
 */
export async function readState(parts: AppParts, conditions: readonly Condition[], scope?: "process") {
  const { clock, reloader, settings, version, running, xds, calls } = parts;
  const reports = scope === "process" ? undefined : await parts.peers.reports();
  const { current } = reloader;
  const { loadedAtUs } = reloader.status();
  const nowUs = clock.nowUs();
  const { inForce, changedUs, changes } = await parts.runtimeLimits.source.counts();
  const { sync } = parts.runtimeLimits;
  const own = { ...ownState(parts, conditions), version };
  // Of one process the page says what is wrong without its name.
  const all = reports === undefined || reports.length === 0 ? [{ ...own, name: undefined }] : [own, ...reports];
  const shown = viewConditions(joinConditions(all, nowUs));
  return {
    at: isoTime(new DayClock(clock).nowUs()),
    /** Differs when another process answers, or when the process was restarted. */
    instance: INSTANCE,
    version,
    store: settings.backendType,
    status: shown[0]?.severity ?? "well",
    conditions: shown,
    /** Since the start. */
    calls: {
      allowed: sumOf(calls.allowed),
      refused: sumOf(calls.refused),
      degraded: calls.degradedCalls,
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
          countOf: ({ stats }) => stats.count(),
          sightOf: (limit) => parts.limitWatch.sightOf(limit),
        }),
      )),
    },
    /** Descriptors that have met no rule since the start, by domain. */
    unmatched: [...calls.domains.entries()].map(({ domain, descriptors }) => ({ domain, descriptors })),
    /** The last day's calls without a decision, by cause, and the limits that were skipped. */
    undecided: { causes: parts.undecided.list(nowUs), limits: parts.undecided.limits() },
    /** Limits that work as written, but perhaps not as intended; for `headgate doctor`. */
    information: parts.limitWatch.information,
    /** Whether GET /top has something to show (TOP_KEYS). */
    keeps_top_keys: parts.topKeys !== undefined,
    /** Limits at run time by kind, and what keeps them from being up to date; `changes` grows with each change. */
    runtime_limits: {
      in_force: Object.fromEntries(Object.entries(inForce).filter(([, count]) => count > 0)),
      changed_at: changedUs === undefined ? null : isoTime(changedUs),
      changes,
      failures: sync.failures,
      last_failure: sync.trouble ?? null,
    },
    /** Those that share the store; null if none is shared, or if it does not answer. */
    processes: reports === undefined ? null : processesOf(parts.deployment.processes(), [own, ...reports]),
    certificate: tlsView(running.tls) ?? null,
  };
}

/** Each process that shares the store; fields are null until it has published a report. */
function processesOf(rates: readonly ProcessRates[], states: readonly (ProcessState & { readonly version: string })[]) {
  return rates.map(({ instance, per_second: perSecond }) => {
    const state = states.find(({ name }) => name === instance);
    return {
      instance,
      answers_here: instance === INSTANCE,
      version: state?.version ?? null,
      status: state === undefined ? null : (viewConditions(joinConditions([state], 0))[0]?.severity ?? "well"),
      rules: state?.rules.hash ?? null,
      per_second: perSecond,
    };
  });
}
