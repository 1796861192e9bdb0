// The metrics of this process, each read from the part that counts it (operate/telemetry/metrics.ts has their names).

import type { Clock } from "../../engine/base/clock.ts";
import { MICROS_PER_SECOND } from "../../engine/base/units.ts";
import { ON_STORE_FAILURE_NAMES } from "../../engine/domain/limit.ts";
import { ADMIN_ACTIONS, ADMIN_OUTCOMES } from "../../operate/http/admin-watch.ts";
import { joinInPieces } from "../../operate/telemetry/join-in-pieces.ts";
import { byLabel, latencyText, metricText, ruleLines, type Sample } from "../../operate/telemetry/metric-text.ts";
import { METRICS } from "../../operate/telemetry/metrics.ts";
import { BREAKER_STATES, SOURCE_NAMES } from "../../operate/telemetry/observers.ts";
import { MemoryStore } from "../../stores/memory/memory-store.ts";
import type { AppParts } from "./app-parts.ts";
import { topRefused } from "./open-top.ts";
import { tlsNumbers } from "./tls-watch.ts";

const PLANE_STATES = ["not connected", "connected, nothing sent yet", "connected"];
const METHOD = { grpc_method: "ShouldRateLimit" };

/** All metrics, in pieces, because there may be many rules. `ofProcess` makes those of Node.js and the process. */
export async function* metricsText(parts: AppParts, ofProcess: () => Promise<string>): AsyncGenerator<string> {
  yield `${await ofProcess()}\n${fixedMetrics(parts)}`;
  // Listed once and not per metric: most rules may have no series, and a search that yields nothing leaves no turn to other work.
  const entries = [...parts.series.entries()];
  const keepsHolds = parts.store instanceof MemoryStore;
  for (const lines of ruleLines(entries, keepsHolds)) yield* joinInPieces(lines);
}

/** The text of all metrics but those of rules. */
export function fixedMetrics(parts: AppParts): string {
  const families = [
    ...callMetrics(parts),
    ...transportMetrics(parts),
    ...storeMetrics(parts),
    ...memoryMetrics(parts),
    ...rulesMetrics(parts),
    ...planeMetrics(parts),
    ...tlsMetrics(parts),
    ...adminMetrics(parts),
  ];
  return families.join("\n");
}

function callMetrics({ calls, running, decisionLog }: AppParts): string[] {
  const { written, leftOut } = decisionLog?.log ?? {};
  const { sent, failed, dropped } = running.traces?.counts ?? {};
  return [
    metricText(METRICS.totalRequests, [[calls.total(), METHOD]]),
    latencyText(METRICS.responseTime, [[calls.responseTime, METHOD]]),
    metricText(METRICS.requestErrors, [
      [calls.storeErrors(), { err_type: "redis_error" }],
      [calls.serviceErrors(), { err_type: "service_error" }],
    ]),
    metricText(METRICS.globalShadow, calls.globalShadows),
    metricText(METRICS.domainNotFound, calls.domainsNotFound),
    metricText(
      METRICS.unmatched,
      [...calls.unmatched.entries()].map(({ domain, descriptors }): Sample => [descriptors, { domain }]),
    ),
    metricText(
      METRICS.decisions,
      SOURCE_NAMES.flatMap((source, i): Sample[] => [
        [calls.allowed[i] ?? 0, { outcome: "allowed", source }],
        [calls.refused[i] ?? 0, { outcome: "refused", source }],
      ]),
    ),
    metricText(
      METRICS.degraded,
      ON_STORE_FAILURE_NAMES.flatMap((policy, i) => byLabel("reason", calls.degradedByPolicy[i] ?? [], { policy })),
    ),
    metricText(METRICS.refusedRequests, byLabel("code", calls.requestErrors)),
    metricText(METRICS.internalErrors, calls.internalErrors),
    metricText(METRICS.overloaded, calls.overloadedCalls),
    metricText(METRICS.suspectedLateReports, calls.lateReports),
    metricText(METRICS.debtCapped, calls.cappedHits),
    metricText(METRICS.inFlight, running.grpc?.inFlight() ?? 0),
    metricText(METRICS.decisionLines, known("result", { written, left_out: leftOut })),
    metricText(METRICS.spans, known("result", { sent, failed, dropped })),
    metricText(METRICS.statsdErrors, running.statsd?.errors ?? 0),
  ];
}

function transportMetrics({ running: { grpc } }: AppParts): string[] {
  return [
    metricText(METRICS.fastLaneCalls, grpc?.counts?.unaryCalls ?? 0),
    metricText(METRICS.fastLaneStreams, grpc?.counts?.streams ?? 0),
    metricText(METRICS.fastLaneConnections, grpc?.counts?.connections ?? 0),
    metricText(METRICS.grpcTroubles, byLabel("trouble", Object.entries(grpc?.troubles ?? {}))),
  ];
}

function storeMetrics({ storeCounts }: AppParts): string[] {
  return [
    latencyText(METRICS.storeTime, [[storeCounts.roundTrip, {}]]),
    metricText(METRICS.storeTakes, storeCounts.takes),
    metricText(METRICS.storeFailures, byLabel("code", storeCounts.failures)),
    metricText(METRICS.storeRepeats, storeCounts.repeats),
    metricText(METRICS.storeRedirections, storeCounts.redirections),
    metricText(METRICS.storeDamaged, storeCounts.damagedBuckets),
    metricText(METRICS.storeEvicted, storeCounts.evictedBuckets),
    metricText(METRICS.loopLate, storeCounts.lateGroups),
    metricText(METRICS.outcomeUnknown, storeCounts.unknownOutcomes),
    metricText(METRICS.gaveBack, storeCounts.givenBack),
    metricText(METRICS.notGivenBack, storeCounts.notGivenBack),
    metricText(METRICS.breakerState, oneOf(BREAKER_STATES, storeCounts.breakerState)),
    metricText(METRICS.breakerChanges, byLabel("state", storeCounts.breakerChanges)),
  ];
}

function memoryMetrics({ store, localCache, snapshots, clock }: AppParts): string[] {
  const { beganAtUs, bytes, seconds, written, failed, refused } = snapshots ?? {};
  return [
    metricText(METRICS.buckets, store instanceof MemoryStore ? store.bucketCount : undefined),
    metricText(METRICS.cacheEntries, localCache?.size),
    metricText(METRICS.cacheLookups, localCache?.lookups),
    metricText(METRICS.cacheHits, localCache?.hits),
    metricText(METRICS.cacheMisses, localCache && localCache.lookups - localCache.hits),
    metricText(METRICS.cacheExpired, localCache?.expired),
    metricText(METRICS.cacheEvicted, localCache?.evicted),
    metricText(METRICS.snapshotAge, secondsSince(beganAtUs, clock)),
    metricText(METRICS.snapshotBytes, bytes),
    metricText(METRICS.snapshotSeconds, seconds),
    metricText(METRICS.snapshots, known("outcome", { written, failed, refused })),
  ];
}

function rulesMetrics({ reloader, health, version, clock }: AppParts): string[] {
  const { loads, failures, lastError, loadedAtUs } = reloader.status();
  const rules = loadedAtUs === undefined ? undefined : reloader.current;
  const limits = [...(rules?.domains.values() ?? [])].reduce((sum, domain) => sum + domain.limits.length, 0);
  return [
    metricText(METRICS.configLoadSuccess, loads),
    metricText(METRICS.configLoadError, failures),
    metricText(
      METRICS.rulesInfo,
      rules === undefined ? [] : [[1, { version: String(rules.version), hash: rules.hash }]],
    ),
    metricText(METRICS.rulesAge, rules && secondsSince(loadedAtUs, clock)),
    metricText(METRICS.rulesLimits, rules && limits),
    metricText(METRICS.rulesLastLoadOk, Number(lastError === undefined)),
    metricText(METRICS.ready, Number(health.isServing())),
    metricText(METRICS.workers, 1),
    metricText(METRICS.buildInfo, [[1, { version, node_version: process.version }]]),
  ];
}

function planeMetrics({ xds, clock }: AppParts): string[] {
  const plane = xds?.xdsStatus();
  return [
    metricText(METRICS.planeState, plane && oneOf(PLANE_STATES, plane.state)),
    metricText(METRICS.planeSetAge, secondsSince(plane?.heardAtUs, clock)),
    metricText(METRICS.planeFromCache, plane && Number(plane.isKept)),
    metricText(METRICS.planeStreams, plane?.streams ?? 0),
    metricText(METRICS.planeAnswers, plane?.answers ?? 0),
    metricText(METRICS.planeRefusals, plane?.refusals ?? 0),
  ];
}

function tlsMetrics({ running }: AppParts): string[] {
  const tls = tlsNumbers(running.tls);
  return [
    metricText(METRICS.tlsRemaining, tls?.remainingSeconds),
    metricText(METRICS.tlsLifetime, tls?.lifetimeSeconds),
    metricText(METRICS.tlsChanges, known("outcome", { renewed: tls?.renewals, refused: tls?.refusals })),
    metricText(METRICS.tlsLastChangeOk, tls && Number(!tls.isRefused)),
  ];
}

function adminMetrics(parts: AppParts): string[] {
  const requests = ADMIN_ACTIONS.flatMap((action) =>
    ADMIN_OUTCOMES.map((outcome): Sample => [parts.adminWatch.of(action, outcome), { action, outcome }]),
  );
  return [
    metricText(METRICS.topRefused, topRefused(parts, parts.settings.topKeysShown)),
    metricText(METRICS.adminRequests, requests),
  ];
}

function secondsSince(atUs: number | undefined, clock: Clock): number | undefined {
  return atUs === undefined ? undefined : (clock.nowUs() - atUs) / MICROS_PER_SECOND;
}

/** Numbers by the value of one label; none where a part is not there. */
function known(label: string, counts: Readonly<Record<string, number | undefined>>): Sample[] {
  const there = Object.entries(counts).filter((entry): entry is [string, number] => entry[1] !== undefined);
  return byLabel(label, there);
}

/** 1 for the state that it is in, 0 for the others. */
function oneOf(states: readonly string[], current: string): Sample[] {
  return states.map((state): Sample => [Number(state === current), { state }]);
}
