// Gathers what GET /state shows, of this process and the others that share its store.

import { DayClock } from "../../base/clock.ts";
import { sumOf } from "../../base/counts.ts";
import { runInTurns } from "../../base/long-work.ts";
import { isoTime } from "../../base/units.ts";
import { type Limit, OnStoreFailure } from "../../engine/domain/limit.ts";
import { textOf } from "../../engine/domain/request.ts";
import type { RuleSet } from "../../engine/rules/rule-set.ts";
import type { Condition } from "../../operate/condition.ts";
import {
  type ConditionView,
  joinConditions,
  type ProcessState,
  viewConditions,
} from "../../operate/http/join-conditions.ts";
import { type RulesQuestion, ruleRows } from "../../operate/http/rule-rows.ts";
import { isOfStore, lastMinute, percentWords, verdictOf } from "../../operate/http/verdict.ts";
import { callsOver, lastFlood, MINUTE_MS, refusingMost } from "../../operate/telemetry/call-rates.ts";
import type { Deployment } from "../../operate/telemetry/deployment.ts";
import type { CallsView } from "../../operate/telemetry/rate-history.ts";
import type { AppParts } from "./app-parts.ts";
import { readTop } from "./open-top.ts";
import { INSTANCE } from "./peers.ts";
import { ownState } from "./publish-report.ts";
import { tlsView } from "./tls-watch.ts";

/** Most domains in the answer; the page offers them for questions to /explain. */
const DOMAINS_MAX = 200;
/** Keys that the first line is made of, and rules that it names. */
const VERDICT_KEYS = 10;
const NAMED_MAX = 3;

interface StateQuestion {
  /** Leaves other processes out. */
  readonly scope: "process" | undefined;
  /** The caller holds a token. */
  readonly showsWho: boolean;
}

/** Makes the JSON of GET /state, which the operator's page reads. `conditions` are this process's. */
export async function readState(parts: AppParts, conditions: readonly Condition[], { scope, showsWho }: StateQuestion) {
  const { clock, reloader, settings, version, running, xds, calls } = parts;
  const reports = scope === "process" ? undefined : await parts.peers.reports();
  const { current } = reloader;
  const { loadedAtUs } = reloader.status();
  const nowUs = clock.nowUs();
  const { inForce, last, changes } = await parts.runtimeLimits.source.counts();
  const { sync } = parts.runtimeLimits;
  const own = { ...ownState(parts, conditions), version };
  // Of one process the page says what is wrong without its name.
  const all = reports === undefined || reports.length === 0 ? [{ ...own, name: undefined }] : [own, ...reports];
  const history = parts.history.minutes.calls();
  const minute = history && lastMinute(history);
  const shown = withEffect(viewConditions(joinConditions(all, nowUs)), current, minute);
  const atMs = Date.parse(isoTime(nowUs));
  const top = parts.topKeys && (await verdictKeys(parts, history, showsWho));
  return {
    at: isoTime(new DayClock(clock).nowUs()),
    /** The first line. */
    verdict: verdictOf({
      atMs,
      conditions: shown,
      history,
      refusingMost: (from, to) => mostRefusing(parts, from, to),
      top,
    }),
    /** Calls of the last minute: how many a second, and parts of them by outcome; null before they are known. */
    minute: minute ?? null,
    /** The same ten minutes ago, or as long ago as is known. */
    before: (history && before(history)) ?? null,
    /** What somebody did last: the last change at run time, or the last rules. */
    last_change: parts.events.list(showsWho).findLast(({ kind }) => kind === "limits" || kind === "rules") ?? null,
    /** Where links lead to; without DOCS_ADDRESS there are none to the docs. */
    links: { metrics: settings.prometheusPath, docs: settings.docsAddress ?? null },
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
    },
    /** Descriptors that have met no rule since the start, by domain. */
    unmatched: [...calls.domains.entries()].map(({ domain, descriptors }) => ({ domain, descriptors })),
    /** The last day's calls without a decision, by cause, and the limits that were skipped. */
    undecided: { causes: parts.undecided.list(nowUs), limits: parts.undecided.limits() },
    /** Limits that work as written, but perhaps not as intended; for `headgate doctor`. */
    information: parts.limitWatch.information,
    /** Whether GET /top has something to show (TOP_KEYS). */
    keeps_top_keys: parts.topKeys !== undefined,
    /** What is handed out to Envoys; null before one has reported. */
    quota: parts.quota.state(),
    /** Limits at run time by kind, and what keeps them from being up to date; `changes` grows with each change. */
    runtime_limits: {
      in_force: Object.fromEntries(Object.entries(inForce).filter(([, count]) => count > 0)),
      changed_at: last === undefined ? null : isoTime(last.atUs),
      changes,
      failures: sync.failures,
      last_failure: sync.trouble ?? null,
    },
    /** Those that share the store; null if none is shared, or if it does not answer. */
    processes: reports === undefined ? null : processesOf(parts.deployment.processes(), [own, ...reports]),
    certificate: tlsView(running.tls) ?? null,
  };
}

/** Top keys of the last minute, or of the last hour after a flood. */
async function verdictKeys(parts: AppParts, history: CallsView | undefined, showsWho: boolean) {
  const isOver = history !== undefined && lastFlood(history)?.isNow === false;
  const view = await readTop(
    parts,
    { window: isOver ? "hour" : "minute", by: "refused", keys: VERDICT_KEYS },
    showsWho,
  );
  return "keys" in view ? view : undefined;
}

function mostRefusing({ history }: AppParts, fromMs: number, toMs: number) {
  const view = history.minutes.view();
  return view && refusingMost(view, fromMs, toMs);
}

/** Undefined if nothing is known of that time. */
function before(history: CallsView) {
  const atMs = Date.parse(history.at);
  const knownMs = history.seconds.reduce<number>((sum, seconds) => sum + (seconds ?? 0), 0) * 1_000;
  const agoMs = Math.min(10 * MINUTE_MS, knownMs - MINUTE_MS);
  if (agoMs < MINUTE_MS) return undefined;
  return { at: new Date(atMs - agoMs).toISOString(), ...callsOver(history, atMs - agoMs - MINUTE_MS, atMs - agoMs) };
}

/** Says of the store's trouble what callers get. */
function withEffect(
  conditions: readonly ConditionView[],
  rules: RuleSet | undefined,
  minute: ReturnType<typeof lastMinute> | undefined,
): readonly ConditionView[] {
  return conditions.map((condition) => {
    if (!isOfStore(condition) && condition.id !== "degraded") return condition;
    const passed =
      minute === undefined || minute.passed === 0
        ? []
        : [`${percentWords(minute.passed)} of calls pass without limits`];
    const denied = pathsWith(rules, OnStoreFailure.deny);
    const local = pathsWith(rules, OnStoreFailure.local);
    const effects = [
      ...passed,
      ...(denied.length === 0 ? [] : [`${namesOf(denied)} ${denied.length === 1 ? "is" : "are"} refused`]),
      ...(local.length === 0 ? [] : [`${namesOf(local)} ${local.length === 1 ? "counts" : "count"} per process`]),
    ];
    return effects.length === 0 ? condition : { ...condition, effect: effects.join("; ") };
  });
}

/** Rules that name this policy. */
function pathsWith(rules: RuleSet | undefined, policy: OnStoreFailure): readonly string[] {
  const paths = new Set<string>();
  for (const { limits } of rules?.domains.values() ?? [])
    for (const { policy: own, names } of limits) if (own.onStoreFailure === policy) paths.add(textOf(names.path));
  return [...paths];
}

function namesOf(paths: readonly string[]): string {
  const named = paths.slice(0, NAMED_MAX).join(", ");
  return paths.length <= NAMED_MAX ? named : `${named} and ${paths.length - NAMED_MAX} more rules`;
}

/** Each process that shares the store; fields are null until it has published a report. */
function processesOf(
  rates: ReturnType<Deployment["processes"]>,
  states: readonly (ProcessState & { readonly version: string })[],
) {
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

/** Makes the JSON of GET /rules. */
export async function readRules(parts: AppParts, question: RulesQuestion) {
  const { rules: changed } = await parts.runtimeLimits.source.counts();
  const sources = { countOf: ({ stats }: Limit) => stats.count(), watch: parts.limitWatch, changed };
  return runInTurns(ruleRows(parts.reloader.current, question, sources));
}
