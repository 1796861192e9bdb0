// Connects the store (open-store.ts) with limiter, rules and counters, and puts rules in force. open-ports.ts listens.

import { DayClock, SystemClock, WallClock } from "../../base/clock.ts";
import { HealthState } from "../../base/health.ts";
import { runInTurns } from "../../base/long-work.ts";
import { isoTime } from "../../base/units.ts";
import { Counters } from "../../engine/counters/counters.ts";
import { LocalCache } from "../../engine/counters/local-cache.ts";
import { OnStoreFailure, Sync } from "../../engine/domain/limit.ts";
import type { LimitStats } from "../../engine/domain/stats.ts";
import { BucketAdmin } from "../../engine/limiter/bucket-admin.ts";
import { LocalFallback } from "../../engine/limiter/failure-policy.ts";
import { Limiter } from "../../engine/limiter/limiter.ts";
import { OVERRIDE_STATS } from "../../engine/limiter/overrides.ts";
import type { RuleSet } from "../../engine/rules/rule-set.ts";
import type { TlsFiles } from "../../grpc/transport/tls-files.ts";
import type { GrpcServer } from "../../grpc/transport/transport.ts";
import { AdminWatch } from "../../operate/http/admin-watch.ts";
import type { PageServer } from "../../operate/http/page-server.ts";
import { callTotals, Deployment } from "../../operate/telemetry/deployment.ts";
import { EventBook } from "../../operate/telemetry/event-book.ts";
import { LimitWatch } from "../../operate/telemetry/limit-watch.ts";
import { MarkedCalls } from "../../operate/telemetry/marked-calls.ts";
import { CallCounts, StoreCounts } from "../../operate/telemetry/observers.ts";
import { RateHistory } from "../../operate/telemetry/rate-history.ts";
import { RateLimitedLog } from "../../operate/telemetry/rate-limited-log.ts";
import { SeriesBook } from "../../operate/telemetry/series-book.ts";
import { LimitStatsBook } from "../../operate/telemetry/stats-book.ts";
import type { StatsdExporter } from "../../operate/telemetry/statsd.ts";
import { TopKeys } from "../../operate/telemetry/top/top-keys.ts";
import type { Traces } from "../../operate/telemetry/traces/open-traces.ts";
import { UndecidedCalls } from "../../operate/telemetry/undecided-calls.ts";
import { openQuota } from "../../quota/open-quota.ts";
import type { XdsStatus } from "../../rule-sources/xds/xds-rules.ts";
import { compileOptions, policyOf } from "../../settings/settings.ts";
import type { AppOptions } from "./app-options.ts";
import { openDecisionLog } from "./open-decision-log.ts";
import { openRules } from "./open-rules.ts";
import { makeSnapshots } from "./open-snapshots.ts";
import { openLocalStore, openStore } from "./open-store.ts";
import { INSTANCE, Peers } from "./peers.ts";
import { Presence } from "./presence.ts";
import { openRuntimeLimits } from "./runtime-limits.ts";

/** How often summaries of counted events and of suppressed lines are logged. */
const LOG_LOOK_MS = 1_000;

/** Samples of the last hour are four looks long: as many as the samples of fifteen minutes. */
const LOOKS_PER_HOUR_SAMPLE = 4;

/** The parts of a process, which app/ shares. */
export type AppParts = Awaited<ReturnType<typeof buildAppParts>>;

/** Parts that exist only once the process starts. */
interface RunningParts {
  grpc?: GrpcServer;
  /** The HTTP port and the optional ports. */
  readonly pages: PageServer[];
  tls?: TlsFiles | undefined;
  statsd?: StatsdExporter | undefined;
  /** Resolves when counters of replaced rules are dropped. */
  retained: Promise<void>;
  /** Undefined without TRACING_ENABLED. */
  traces?: Traces | undefined;
  /** Periodic timers, cleared when the process closes. */
  readonly watches: NodeJS.Timeout[];
}

/** Builds everything that does not listen. Rules come in force as soon as they are loaded. Rejects with ConfigError. */
export async function buildAppParts(options: AppOptions) {
  const { settings, clock, logger } = options;
  const rareLog = new RateLimitedLog(logger, clock);
  const calls = new CallCounts(rareLog);
  const storeCounts = new StoreCounts(rareLog);
  const statsBook = new LimitStatsBook(settings.metricValuesMax);
  const series = new SeriesBook(statsBook, settings.metricRulesMax);
  const health = new HealthState();
  const choice = { settings, clock, observer: storeCounts };
  const { store, deciding, storeHealth, processes, memories, shared } = await openStore(choice);
  const totals = () => callTotals(calls, marked);
  const deployment = new Deployment(totals);
  const runtimeLimits = await openRuntimeLimits({
    ...options,
    // A shared store's clock decides when they end; without one, the time of day.
    clock: shared === undefined ? new DayClock(clock) : clock,
    shared,
    rules: () => limiter.rules,
    unread: (reason) => health.setTrouble("limits", reason),
    beat: () => presence.beat(),
  });
  const presence = new Presence({
    register: shared?.register,
    name: INSTANCE,
    before: () => runtimeLimits.sync.tick(),
    report: () => ({ version: runtimeLimits.sync.version, calls: totals() }),
    heard: (all, ownId) => deployment.heard(all, ownId, clock.nowUs()),
  });
  const { counters, localCache } = openCounters(settings, clock);
  const limiting = {
    store: deciding,
    clock,
    shadowMode: settings.shadowMode,
    quotaMode: settings.quotaMode,
    onStoreFailure: policyOf(settings),
    retryAfterJitter: settings.retryAfterJitter,
    statsBook,
    runtime: runtimeLimits.limits,
    counters,
  };
  const { topKeysMax: keysMax } = settings;
  const labelsOf = (stats: LimitStats) => statsBook.ownerOf(stats);
  const topKeys = keysMax === 0 ? undefined : new TopKeys({ keysMax, nowUs: clock.nowUs(), labelsOf });
  const marked = new MarkedCalls(topKeys);
  const limiter: Limiter = new Limiter({
    ...limiting,
    observer: calls,
    listener: marked,
    fallback: new LocalFallback(
      () => openLocalStore(choice),
      () => processes.count(),
    ),
    nearLimitRatio: settings.nearLimitRatio,
  });
  const compile = { ...compileOptions(settings), statsBook, domainBook: calls.domains };
  const { reloader, xds } = await openRules(options, compile, (): void => showRulesHealth(parts));
  const counted = { calls, totals: () => deployment.totals(), storeCounts };
  const history = { minutes: new RateHistory(counted, 1), hour: new RateHistory(counted, LOOKS_PER_HOUR_SAMPLE) };
  const running: RunningParts = { watches: [], pages: [], retained: Promise.resolve() };
  const parts = {
    ...options,
    health,
    calls,
    storeCounts,
    statsBook,
    series,
    undecided: new UndecidedCalls(),
    deployment,
    presence,
    peers: new Peers(shared?.register, clock),
    history,
    events: new EventBook(clock.nowUs()),
    limitWatch: new LimitWatch({
      histories: Object.values(history),
      shapesOf: (domain) => calls.domains.shapesOf(domain),
    }),
    store,
    storeHealth,
    snapshots: await makeSnapshots(options, store),
    limiter,
    runtimeLimits,
    quota: openQuota({
      ...limiting,
      rules: () => limiter.rules,
      processes,
      observer: {
        unknown: ({ domain, keys, why }) =>
          rareLog.warn("quota unknown", "an Envoy asks for a bucket that no rule hands out; it is denied", () => ({
            domain,
            keys: keys.join(", "),
            why,
          })),
        failed: (error) => calls.internalFailed(error),
      },
    }),
    buckets: new BucketAdmin({ ...limiting, memories, rules: () => limiter.rules }),
    topKeys,
    adminWatch: new AdminWatch(logger, rareLog),
    reloader,
    xds,
    rareLog,
    localCache,
    decisionLog: openDecisionLog(options, rareLog),
    running,
  };
  const tellLog = () => {
    calls.domains.tell(rareLog);
    rareLog.tellDue();
  };
  running.watches.push(setInterval(tellLog, LOG_LOOK_MS).unref());
  reloader.subscribe((rules) => {
    putInForce(parts, rules);
    // A store counts processes from the first question on. `local` needs the count when the store is down.
    if (needsProcessCount(rules)) processes.count();
  });
  return parts;
}

/** What COMPATIBILITY_MODE needs; nothing without it. */
function openCounters(settings: AppOptions["settings"], clock: AppOptions["clock"]) {
  if (!settings.compatibilityMode) return { counters: undefined, localCache: undefined };
  const { localCacheBytes, nearLimitRatio, shadowMode, quotaMode } = settings;
  const localCache = localCacheBytes > 0 ? new LocalCache(localCacheBytes) : undefined;
  // In Redis other processes count in the same windows, so windows follow the host's wall clock, as in
  // envoyproxy/ratelimit.
  const isShared = settings.redis !== undefined && clock instanceof SystemClock;
  const windowClock = isShared ? new WallClock() : new DayClock(clock);
  return { counters: new Counters({ windowClock, nearLimitRatio, shadowMode, quotaMode, localCache }), localCache };
}

function putInForce(parts: AppParts, rules: RuleSet): void {
  parts.limiter.useRules(rules);
  // Flush before rules are dropped, or their last counts would be lost.
  parts.running.statsd?.flush();
  const work = [
    parts.statsBook.retainOnly(statsInUse(parts, rules)),
    parts.calls.domains.retain(rules.domains.values()),
  ];
  parts.running.retained = parts.running.retained
    .then(async () => {
      for (const each of work) await runInTurns(each);
    })
    .catch((error: unknown) => parts.calls.internalFailed(error));
  showRulesHealth(parts);
}

function* statsInUse({ statsBook }: AppParts, { domains }: RuleSet): Generator<LimitStats> {
  for (const { domain, limits } of domains.values()) {
    for (const { stats } of limits) yield stats;
    const overrides = statsBook.find(domain, OVERRIDE_STATS.path, OVERRIDE_STATS.name);
    if (overrides !== undefined) yield overrides;
  }
}

function needsProcessCount({ domains }: RuleSet): boolean {
  return [...domains.values()].some(
    ({ limits, handedOut }) =>
      handedOut.size > 0 ||
      limits.some(
        ({ policy: { onStoreFailure, sync } }) => onStoreFailure === OnStoreFailure.local || sync !== Sync.exact,
      ),
  );
}

/** Shows on the health pages whether there are rules to decide by. */
export function showRulesHealth({ health, reloader, settings, xds }: AppParts): void {
  const { current } = reloader;
  let trouble: string | undefined;
  let note: string | undefined;
  if (current === undefined) {
    const lastError = reloader.status().lastError?.message;
    const nothing = xds === undefined ? "the rule files have not been read yet" : "the control plane has sent none yet";
    trouble = `no rules are in force: ${lastError ?? nothing}; see /config`;
  } else if (settings.readyNeedsDomain && current.domains.size === 0) {
    trouble = "no domain is configured, and HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED asks for one";
  }
  // A gateway without policies is sent no rules; if that made it unready, probes would end the process.
  if (current === undefined && xds !== undefined && settings.startsWithoutRules && !settings.readyNeedsDomain) {
    note = trouble;
    trouble = undefined;
  }
  health.setTrouble("rules", trouble);
  health.setNote("rules", note);
  if (xds !== undefined) health.setNote("control plane", planeNote(xds.xdsStatus()));
}

function planeNote({ state, server, lastEnd, isKept, heardAtUs }: XdsStatus): string | undefined {
  const kept = `rules in force are from RULES_CACHE, of ${isoTime(heardAtUs ?? 0)}`;
  if (state === "not connected") {
    const why = lastEnd === undefined ? "" : `: ${lastEnd}`;
    return `not connected to ${server}${why}; ${isKept ? kept : "the rules in force stay"}`;
  }
  return isKept ? `${server} has not sent anything yet; ${kept}` : undefined;
}
