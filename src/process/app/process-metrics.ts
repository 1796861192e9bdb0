// The metrics of this process, each read from the part that counts it (operate/telemetry/metrics.ts has their names).

import type { Clock } from "../../engine/base/clock.ts";
import { MICROS_PER_SECOND } from "../../engine/base/units.ts";
import { ON_STORE_FAILURE_NAMES } from "../../engine/domain/limit.ts";
import { ADMIN_ACTIONS, ADMIN_OUTCOMES } from "../../operate/http/admin-watch.ts";
import { joinInPieces } from "../../operate/telemetry/join-in-pieces.ts";
import { byLabel, latencyText, metricText, ruleLines, type Sample } from "../../operate/telemetry/metric-text.ts";
import { METRICS, type MetricRow, WORKER_METRICS } from "../../operate/telemetry/metrics.ts";
import { type NodeMetrics, nodeText } from "../../operate/telemetry/node-metrics.ts";
import { BREAKER_STATES, SOURCE_NAMES } from "../../operate/telemetry/observers.ts";
import type { ThreadNumbers } from "../../operate/telemetry/thread-numbers.ts";
import { MemoryStore } from "../../stores/memory/memory-store.ts";
import type { WorkerLink } from "../workers/worker-link.ts";
import type { AppParts } from "./app-parts.ts";
import { topRefused } from "./open-top.ts";
import { tlsNumbers } from "./tls-watch.ts";

const PLANE_STATES = ["not connected", "connected, nothing sent yet", "connected"];
const METHOD = { grpc_method: "ShouldRateLimit" };

/** All metrics, in pieces, because there may be many rules. `ofNode` reads those of Node.js in this thread. */
export async function metricsText(
  parts: AppParts,
  ofNode: () => Promise<NodeMetrics>,
): Promise<AsyncGenerator<string>> {
  const { link, settings } = parts;
  const [node, refused] = await Promise.all([
    link?.ask({ about: "node" }).then((all) => [...all.values()]) ?? ofNode().then((own) => [own]),
    topRefused(parts, settings.topKeysShown),
  ]);
  const others = `${await nodeText(node)}\n${fixedMetrics(parts)}\n${metricText(METRICS.topRefused, refused)}`;
  return piecesOf(parts, link === undefined ? others : `${others}${workerMetrics(parts, link)}`);
}

async function* piecesOf({ series, store }: AppParts, others: string): AsyncGenerator<string> {
  yield others;
  // Listed once and not per metric: most rules may have no series, and a search that yields nothing leaves no turn to other work.
  const entries = [...series.entries()];
  for (const lines of ruleLines(entries, store instanceof MemoryStore)) yield* joinInPieces(lines);
}

/** The text of all metrics but those of rules, of Node.js, and those that others have to be asked for. */
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

function callMetrics({ calls, running, decisionLog, numbers }: AppParts): string[] {
  const shared = sharedBy(numbers);
  const { written, leftOut } = decisionLog?.log ?? {};
  const { sent, failed, dropped } = running.traces?.counts ?? {};
  return [
    metricText(METRICS.totalRequests, [[calls.total(), METHOD]]),
    latencyText(METRICS.responseTime, [[calls.responseTime, METHOD]]),
    metricText(METRICS.requestErrors, [
      [calls.storeErrors(), { err_type: "redis_error" }],
      [calls.serviceErrors(), { err_type: "service_error" }],
    ]),
    metricText(METRICS.globalShadow, calls.sum("globalShadows")),
    metricText(METRICS.domainNotFound, calls.sum("domainsNotFound")),
    metricText(
      METRICS.unmatched,
      [...calls.unmatched.entries()].map(({ domain, descriptors }): Sample => [descriptors, { domain }]),
    ),
    metricText(
      METRICS.decisions,
      SOURCE_NAMES.flatMap((source): Sample[] => [
        [calls.allowed.sum(source), { outcome: "allowed", source }],
        [calls.refused.sum(source), { outcome: "refused", source }],
      ]),
    ),
    metricText(
      METRICS.degraded,
      ON_STORE_FAILURE_NAMES.flatMap((policy, i) =>
        byLabel("reason", calls.degradedByPolicy[i]?.sums() ?? [], { policy }),
      ),
    ),
    metricText(
      METRICS.refusedRequests,
      byLabel(
        "code",
        calls.requestErrors.sums().filter(([, count]) => count > 0),
      ),
    ),
    metricText(METRICS.internalErrors, calls.sum("internalErrors")),
    metricText(METRICS.overloaded, calls.sum("overloadedCalls")),
    metricText(METRICS.suspectedLateReports, calls.sum("lateReports")),
    metricText(METRICS.debtCapped, calls.sum("cappedHits")),
    shared(METRICS.inFlight, running.grpc?.inFlight() ?? 0),
    shared(METRICS.decisionLines, known("result", { written, left_out: leftOut })),
    shared(METRICS.spans, known("result", { sent, failed, dropped })),
    shared(METRICS.statsdErrors, running.statsd?.errors ?? 0),
  ];
}

function transportMetrics({ running: { grpc } }: AppParts): string[] {
  return [
    metricText(METRICS.fastLaneCalls, grpc?.counts?.sum("unaryCalls") ?? 0),
    metricText(METRICS.fastLaneStreams, grpc?.counts?.sum("streams") ?? 0),
    metricText(METRICS.fastLaneConnections, grpc?.counts?.sum("connections") ?? 0),
    metricText(METRICS.grpcTroubles, byLabel("trouble", grpc?.troubles.sums() ?? [])),
  ];
}

function storeMetrics({ storeCounts, numbers }: AppParts): string[] {
  const shared = sharedBy(numbers);
  return [
    latencyText(METRICS.storeTime, [[storeCounts.roundTrip, {}]]),
    metricText(METRICS.storeTakes, storeCounts.sum("takes")),
    metricText(METRICS.storeFailures, byLabel("code", storeCounts.failures.sums())),
    metricText(METRICS.storeRepeats, storeCounts.sum("repeats")),
    metricText(METRICS.storeRedirections, storeCounts.sum("redirections")),
    metricText(METRICS.storeDamaged, storeCounts.sum("damagedBuckets")),
    metricText(METRICS.storeEvicted, storeCounts.sum("evictedBuckets")),
    metricText(METRICS.loopLate, storeCounts.sum("lateGroups")),
    metricText(METRICS.outcomeUnknown, storeCounts.sum("unknownOutcomes")),
    metricText(METRICS.gaveBack, storeCounts.sum("givenBack")),
    metricText(METRICS.notGivenBack, storeCounts.sum("notGivenBack")),
    shared(METRICS.breakerState, oneOf(BREAKER_STATES, storeCounts.breakerState)),
    metricText(METRICS.breakerChanges, byLabel("state", storeCounts.breakerChanges.sums())),
  ];
}

function memoryMetrics({ store, localCache, snapshots, clock, numbers }: AppParts): string[] {
  const shared = sharedBy(numbers);
  const { beganAtUs, bytes, seconds, written, failed, refused } = snapshots?.read() ?? {};
  return [
    // The store and the state of snapshots are shared.
    metricText(METRICS.buckets, store instanceof MemoryStore ? store.bucketCount : undefined),
    shared(METRICS.cacheEntries, localCache?.size),
    shared(METRICS.cacheLookups, localCache?.lookups),
    shared(METRICS.cacheHits, localCache?.hits),
    shared(METRICS.cacheMisses, localCache && localCache.lookups - localCache.hits),
    shared(METRICS.cacheExpired, localCache?.expired),
    shared(METRICS.cacheEvicted, localCache?.evicted),
    metricText(METRICS.snapshotAge, secondsSince(beganAtUs, clock)),
    metricText(METRICS.snapshotBytes, bytes),
    metricText(METRICS.snapshotSeconds, seconds),
    metricText(METRICS.snapshots, known("outcome", { written, failed, refused })),
  ];
}

function rulesMetrics({ reloader, health, version, clock, counts, numbers }: AppParts): string[] {
  const shared = sharedBy(numbers);
  const { loads, failures, lastError, loadedAtUs } = reloader.status();
  const rules = loadedAtUs === undefined ? undefined : reloader.current;
  const limits = [...(rules?.domains.values() ?? [])].reduce((sum, domain) => sum + domain.limits.length, 0);
  return [
    shared(METRICS.configLoadSuccess, loads),
    shared(METRICS.configLoadError, failures),
    metricText(
      METRICS.rulesInfo,
      rules === undefined ? [] : [[1, { version: String(rules.version), hash: rules.hash }]],
    ),
    shared(METRICS.rulesAge, rules && secondsSince(loadedAtUs, clock)),
    shared(METRICS.rulesLimits, rules && limits),
    shared(METRICS.rulesLastLoadOk, Number(lastError === undefined)),
    shared(METRICS.ready, Number(health.isServing())),
    metricText(METRICS.workers, counts.living().length),
    metricText(METRICS.buildInfo, [[1, { version, node_version: process.version }]]),
  ];
}

function planeMetrics({ xds, clock, numbers }: AppParts): string[] {
  const shared = sharedBy(numbers);
  const plane = xds?.xdsStatus();
  return [
    shared(METRICS.planeState, plane && oneOf(PLANE_STATES, plane.state)),
    shared(METRICS.planeSetAge, secondsSince(plane?.heardAtUs, clock)),
    shared(METRICS.planeFromCache, plane && Number(plane.isKept)),
    shared(METRICS.planeStreams, plane?.streams ?? 0),
    shared(METRICS.planeAnswers, plane?.answers ?? 0),
    shared(METRICS.planeRefusals, plane?.refusals ?? 0),
  ];
}

function tlsMetrics({ running, numbers }: AppParts): string[] {
  const shared = sharedBy(numbers);
  const tls = tlsNumbers(running.tls);
  return [
    shared(METRICS.tlsRemaining, tls?.remainingSeconds),
    shared(METRICS.tlsLifetime, tls?.lifetimeSeconds),
    shared(METRICS.tlsChanges, known("outcome", { renewed: tls?.renewals, refused: tls?.refusals })),
    shared(METRICS.tlsLastChangeOk, tls && Number(!tls.isRefused)),
  ];
}

function adminMetrics(parts: AppParts): string[] {
  const requests = ADMIN_ACTIONS.flatMap((action) =>
    ADMIN_OUTCOMES.map((outcome): Sample => [parts.adminWatch.of(action, outcome), { action, outcome }]),
  );
  return [metricText(METRICS.adminRequests, requests)];
}

function workerMetrics({ calls, counts }: AppParts, { numbers }: WorkerLink): string {
  const perWorker = (row: MetricRow, read: (worker: number) => number) =>
    metricText(
      row,
      counts.rows.map((_, i): Sample => [read(i + 1), { worker: String(i + 1) }]),
    );
  return [
    metricText(WORKER_METRICS.restarts, numbers.measured("restarts")),
    metricText(WORKER_METRICS.moves, numbers.measured("moves")),
    perWorker(WORKER_METRICS.connections, (worker) => numbers.of(worker, "grpc")),
    perWorker(WORKER_METRICS.openStreams, (worker) => numbers.measured("openStreams", worker)),
    perWorker(WORKER_METRICS.calls, (worker) => calls.total(counts.rows.slice(worker - 1, worker))),
  ].join("\n");
}

/** Writes metrics that each thread knows for itself, as what all of them have. */
function sharedBy(numbers: ThreadNumbers) {
  return (row: MetricRow, own: number | undefined | readonly Sample[]): string => {
    if (own === undefined) return metricText(row, undefined);
    if (typeof own === "number") return metricText(row, numbers.share(row, own));
    const all = own.map(([value, labels = {}]): Sample => [numbers.share(row, value, JSON.stringify(labels)), labels]);
    return metricText(row, all);
  };
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
