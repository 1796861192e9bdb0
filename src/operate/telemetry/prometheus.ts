// Metrics for Prometheus, by prom-client. Nothing here runs on the decision path: every number is read from a plain counter when the
// metrics are scraped.

import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";
import { ON_STORE_FAILURE_NAMES } from "../../engine/domain/limit.ts";
import { ADMIN_ACTIONS, ADMIN_OUTCOMES, type AdminCounts } from "./admin-counts.ts";
import { joinInPieces } from "./join-in-pieces.ts";
import { LATENCY_BOUNDS_US, type LatencyHistogram } from "./latency-histogram.ts";
import { METRICS, type MetricRow } from "./metrics.ts";
import { BREAKER_STATES, type CallCounts, SOURCE_NAMES, type StoreCounts } from "./observers.ts";
import { ruleLines } from "./rule-lines.ts";
import type { SeriesSource } from "./series-book.ts";

/** The rule set in force. */
interface RulesGauge {
  readonly version: number;
  readonly hash: string;
  readonly limits: number;
  readonly ageSeconds: number;
}

/** Attempts to load rules: how many succeeded, how many failed, and the failure of the last one, if it failed. */
interface ReloadNumbers {
  readonly loads: number;
  readonly failures: number;
  readonly lastError: unknown;
}

/** Counters of the fast lane. */
interface LaneNumbers {
  readonly connections: number;
  readonly unaryCalls: number;
  readonly streams: number;
}

/** Counters of the compatibility mode's local cache. */
export interface LocalCacheNumbers {
  readonly size: number;
  readonly lookups: number;
  readonly hits: number;
  readonly expired: number;
  readonly evicted: number;
}

/** The certificates of the gRPC port. */
export interface TlsNumbers {
  readonly remainingSeconds: number;
  readonly lifetimeSeconds: number;
  readonly renewals: number;
  readonly refusals: number;
  /** True while the files hold certificates that are not in force. */
  readonly isRefused: boolean;
}

/** Numbers of the memory store's snapshots. */
export interface SnapshotNumbers {
  /** Undefined before the first snapshot. */
  readonly ageSeconds: number | undefined;
  readonly bytes: number;
  readonly seconds: number;
  readonly written: number;
  readonly failed: number;
  readonly refused: number;
}

/** The control plane that sends the rules. */
interface PlaneNumbers {
  readonly state: string;
  /** Undefined before the first rule set. */
  readonly setAgeSeconds: number | undefined;
  readonly isKept: boolean;
  readonly streams: number;
  readonly answers: number;
  readonly refusals: number;
}

/** Where the numbers come from. Each function may be called several times per scrape. */
interface MetricSources {
  readonly calls: CallCounts;
  readonly store: StoreCounts;
  readonly admin: AdminCounts;
  readonly reloads: () => ReloadNumbers;
  readonly series: SeriesSource;
  /** Errors while counters were sent to statsd; undefined without statsd. */
  readonly statsdErrors: () => number | undefined;
  /** Undefined before the first rule set. */
  readonly rules: () => RulesGauge | undefined;
  /** Buckets in this process's memory; undefined if the store is elsewhere. */
  readonly buckets: () => number | undefined;
  /** Undefined without a local cache. */
  readonly localCache: LocalCacheNumbers | undefined;
  /** Lines written and decisions left out; undefined without a decision log. */
  readonly decisionLog?: { readonly written: number; readonly leftOut: number } | undefined;
  /** Spans by what became of them; undefined unless calls are traced. */
  readonly spans?: () => { readonly sent: number; readonly failed: number; readonly dropped: number } | undefined;
  /** Undefined without MEMORY_SNAPSHOT. */
  readonly snapshot?: () => SnapshotNumbers | undefined;
  readonly inFlight: () => number;
  /** Undefined without a fast lane. */
  readonly lane: () => LaneNumbers | undefined;
  /** Peers' errors by kind. */
  readonly grpcTroubles: () => Readonly<Record<string, number>>;
  /** Undefined without TLS. */
  readonly tls: () => TlsNumbers | undefined;
  /** Undefined if rules come from files. */
  readonly plane?: () => PlaneNumbers | undefined;
  /** Keys that are refused most, with their refusals; undefined unless they are exported (TOP_KEYS_METRICS). */
  readonly topRefused?: (() => readonly Value[]) | undefined;
  readonly isReady: () => boolean;
  readonly version: string;
}

type Value = readonly [number, Readonly<Record<string, string>>?];

const PLANE_STATES = ["not connected", "connected, nothing sent yet", "connected"];

const METHOD = { grpc_method: "ShouldRateLimit" };

/** Exports every metric of metrics.ts, and those of Node.js and the process. */
export class PrometheusExporter {
  readonly #registry = new Registry();
  readonly #series: SeriesSource;
  readonly #keepsBuckets: () => boolean;

  /** `withProcess` adds the metrics of Node.js and the process, which keep a probe of the event loop running. */
  constructor(sources: MetricSources, withProcess = true) {
    this.#series = sources.series;
    this.#keepsBuckets = () => sources.buckets() !== undefined;
    if (withProcess) collectDefaultMetrics({ register: this.#registry });
    registerCalls(this.#registry, sources);
    registerTransport(this.#registry, sources);
    registerStore(this.#registry, sources);
    registerSnapshots(this.#registry, sources);
    registerRules(this.#registry, sources);
    registerPlane(this.#registry, sources);
    registerTls(this.#registry, sources);
    registerAdmin(this.#registry, sources);
  }

  /** The Content-Type of `metricsText`. */
  get contentType(): string {
    return this.#registry.contentType;
  }

  /** All metrics but those of rules, in Prometheus's text format. */
  fixedText(): Promise<string> {
    return this.#registry.metrics();
  }

  /** All metrics, in pieces, because there may be many rules. */
  async *metricsText(): AsyncGenerator<string> {
    yield await this.fixedText();
    // Listed once and not per metric: most rules may have no series, and a search that yields nothing leaves no turn to other work.
    const entries = [...this.#series.entries()];
    for (const lines of ruleLines(entries, this.#keepsBuckets())) yield* joinInPieces(lines);
  }
}

function registerCalls(registry: Registry, { calls, inFlight, statsdErrors, decisionLog, spans }: MetricSources): void {
  const register = registerIn(registry);
  register(METRICS.totalRequests, () => [
    [calls.responseTime.count() + calls.storeErrors() + calls.serviceErrors(), METHOD],
  ]);
  registry.registerMetric(new LatencyMetric(METRICS.responseTime, calls.responseTime, METHOD));
  register(METRICS.requestErrors, () => [
    [calls.storeErrors(), { err_type: "redis_error" }],
    [calls.serviceErrors(), { err_type: "service_error" }],
  ]);
  register(METRICS.globalShadow, () => [[calls.globalShadows]]);
  register(METRICS.domainNotFound, () => [[calls.domainsNotFound]]);
  register(METRICS.unmatched, () =>
    [...calls.unmatched.entries()].map(({ domain, descriptors }): Value => [descriptors, { domain }]),
  );
  register(METRICS.decisions, () =>
    SOURCE_NAMES.flatMap((source, i): Value[] => [
      [calls.allowed[i] ?? 0, { outcome: "allowed", source }],
      [calls.refused[i] ?? 0, { outcome: "refused", source }],
    ]),
  );
  register(METRICS.degraded, () =>
    ON_STORE_FAILURE_NAMES.flatMap((policy, i) => byLabel(calls.degradedByPolicy[i] ?? [], "reason", { policy })),
  );
  register(METRICS.refusedRequests, () => byLabel(calls.requestErrors, "code"));
  register(METRICS.internalErrors, () => [[calls.internalErrors]]);
  register(METRICS.overloaded, () => [[calls.overloadedCalls]]);
  register(METRICS.suspectedLateReports, () => [[calls.lateReports]]);
  register(METRICS.debtCapped, () => [[calls.cappedHits]]);
  register(METRICS.inFlight, () => [[inFlight()]]);
  register(METRICS.decisionLines, () => {
    if (decisionLog === undefined) return [];
    const { written, leftOut } = decisionLog;
    return byLabel(Object.entries({ written, left_out: leftOut }), "result");
  });
  register(METRICS.spans, () => {
    const counts = spans?.();
    if (counts === undefined) return [];
    const { sent, failed, dropped } = counts;
    return byLabel(Object.entries({ sent, failed, dropped }), "result");
  });
  register(METRICS.statsdErrors, () => optional(statsdErrors()));
}

function registerTransport(registry: Registry, { lane, grpcTroubles }: MetricSources): void {
  const register = registerIn(registry);
  register(METRICS.laneCalls, () => optional(lane()?.unaryCalls));
  register(METRICS.laneStreams, () => optional(lane()?.streams));
  register(METRICS.laneConnections, () => optional(lane()?.connections));
  register(METRICS.grpcTroubles, () => byLabel(Object.entries(grpcTroubles()), "trouble"));
}

function registerStore(registry: Registry, { store, buckets, localCache }: MetricSources): void {
  const register = registerIn(registry);
  registry.registerMetric(new LatencyMetric(METRICS.storeTime, store.roundTrip, {}));
  register(METRICS.storeTakes, () => [[store.takes]]);
  register(METRICS.storeFailures, () => byLabel(store.failures, "code"));
  register(METRICS.storeRepeats, () => [[store.repeats]]);
  register(METRICS.storeRedirections, () => [[store.redirections]]);
  register(METRICS.storeDamaged, () => [[store.damagedBuckets]]);
  register(METRICS.storeEvicted, () => [[store.evictedBuckets]]);
  register(METRICS.loopLate, () => [[store.lateGroups]]);
  register(METRICS.outcomeUnknown, () => [[store.unknownOutcomes]]);
  register(METRICS.gaveBack, () => [[store.givenBack]]);
  register(METRICS.notGivenBack, () => [[store.notGivenBack]]);
  register(METRICS.breakerState, () =>
    BREAKER_STATES.map((state): Value => [state === store.breakerState ? 1 : 0, { state }]),
  );
  register(METRICS.breakerChanges, () => byLabel(store.breakerChanges, "state"));
  register(METRICS.buckets, () => optional(buckets()));
  register(METRICS.cacheEntries, () => optional(localCache?.size));
  register(METRICS.cacheLookups, () => optional(localCache?.lookups));
  register(METRICS.cacheHits, () => optional(localCache?.hits));
  register(METRICS.cacheMisses, () => optional(localCache && localCache.lookups - localCache.hits));
  register(METRICS.cacheExpired, () => optional(localCache?.expired));
  register(METRICS.cacheEvicted, () => optional(localCache?.evicted));
}

function registerSnapshots(registry: Registry, { snapshot }: MetricSources): void {
  const register = registerIn(registry);
  register(METRICS.snapshotAge, () => optional(snapshot?.()?.ageSeconds));
  register(METRICS.snapshotBytes, () => optional(snapshot?.()?.bytes));
  register(METRICS.snapshotSeconds, () => optional(snapshot?.()?.seconds));
  register(METRICS.snapshots, () => {
    const numbers = snapshot?.();
    if (numbers === undefined) return [];
    const { written, failed, refused } = numbers;
    return byLabel(Object.entries({ written, failed, refused }), "outcome");
  });
}

function registerRules(registry: Registry, { reloads, rules, isReady, version }: MetricSources): void {
  const register = registerIn(registry);
  register(METRICS.configLoadSuccess, () => [[reloads().loads]]);
  register(METRICS.configLoadError, () => [[reloads().failures]]);
  register(METRICS.rulesInfo, () => {
    const set = rules();
    return set === undefined ? [] : [[1, { version: String(set.version), hash: set.hash }]];
  });
  register(METRICS.rulesAge, () => optional(rules()?.ageSeconds));
  register(METRICS.rulesLimits, () => optional(rules()?.limits));
  register(METRICS.rulesLastLoadOk, () => [[reloads().lastError === undefined ? 1 : 0]]);
  register(METRICS.ready, () => [[isReady() ? 1 : 0]]);
  register(METRICS.workers, () => [[1]]);
  register(METRICS.buildInfo, () => [[1, { version, node_version: process.version }]]);
}

function registerPlane(registry: Registry, { plane }: MetricSources): void {
  const register = registerIn(registry);
  const numbers = () => plane?.();
  register(METRICS.planeState, () => {
    const current = numbers()?.state;
    if (current === undefined) return [];
    return PLANE_STATES.map((state): Value => [state === current ? 1 : 0, { state }]);
  });
  register(METRICS.planeSetAge, () => optional(numbers()?.setAgeSeconds));
  register(METRICS.planeFromCache, () => {
    const isKept = numbers()?.isKept;
    return optional(isKept === undefined ? undefined : Number(isKept));
  });
  register(METRICS.planeStreams, () => optional(numbers()?.streams));
  register(METRICS.planeAnswers, () => optional(numbers()?.answers));
  register(METRICS.planeRefusals, () => optional(numbers()?.refusals));
}

function registerTls(registry: Registry, { tls }: MetricSources): void {
  const register = registerIn(registry);
  register(METRICS.tlsRemaining, () => optional(tls()?.remainingSeconds));
  register(METRICS.tlsLifetime, () => optional(tls()?.lifetimeSeconds));
  register(METRICS.tlsChanges, () => {
    const numbers = tls();
    if (numbers === undefined) return [];
    return byLabel(Object.entries({ renewed: numbers.renewals, refused: numbers.refusals }), "outcome");
  });
  register(METRICS.tlsLastChangeOk, () => {
    const numbers = tls();
    return numbers === undefined ? [] : [[numbers.isRefused ? 0 : 1]];
  });
}

function registerAdmin(registry: Registry, { admin, topRefused }: MetricSources): void {
  registerIn(registry)(METRICS.topRefused, () => topRefused?.() ?? []);
  registerIn(registry)(METRICS.adminRequests, () =>
    ADMIN_ACTIONS.flatMap((action) =>
      ADMIN_OUTCOMES.map((outcome): Value => [admin.of(action, outcome), { action, outcome }]),
    ),
  );
}

function optional(value: number | undefined): Value[] {
  return value === undefined ? [] : [[value]];
}

function byLabel(
  counts: Iterable<readonly [string, number]>,
  label: string,
  labels: Readonly<Record<string, string>> = {},
): Value[] {
  return [...counts].map(([value, count]): Value => [count, { ...labels, [label]: value }]);
}

/** Registers counters and gauges whose values are read at each scrape. */
function registerIn(registry: Registry): (row: MetricRow, read: () => readonly Value[]) => void {
  return (row, read) => {
    const options = { name: row.name, help: row.help, labelNames: row.labels, registers: [registry] };
    if (row.kind === "counter") {
      const metric: Counter = new Counter({
        ...options,
        collect() {
          metric.reset();
          for (const [value, labels = {}] of read()) metric.inc(labels, value);
        },
      });
    } else {
      const metric: Gauge = new Gauge({
        ...options,
        collect() {
          metric.reset();
          if (row.labels.length === 0) metric.remove();
          for (const [value, labels = {}] of read()) metric.set(labels, value);
        },
      });
    }
  };
}

/** A histogram of prom-client that reads a LatencyHistogram. */
class LatencyMetric extends Histogram {
  readonly #row: MetricRow;
  readonly #latency: LatencyHistogram;
  readonly #labels: Readonly<Record<string, string>>;

  constructor(row: MetricRow, latency: LatencyHistogram, labels: Readonly<Record<string, string>>) {
    super({ name: row.name, help: row.help, labelNames: [...row.labels], registers: [] });
    this.#row = row;
    this.#latency = latency;
    this.#labels = labels;
  }

  /** Gives the registry its values. prom-client calls this method for histograms, but its types omit it. */
  async getForPromString(): Promise<object> {
    const { name, help } = this.#row;
    const { counts, sumUs } = this.#latency;
    const labels = this.#labels;
    let sum = 0;
    const values: object[] = Array.from(counts, (count, i) => {
      sum += count;
      const boundUs = LATENCY_BOUNDS_US[i];
      const le = boundUs === undefined ? "+Inf" : String(boundUs / 1_000_000);
      return { metricName: `${name}_bucket`, value: sum, labels: { ...labels, le } };
    });
    values.push({ metricName: `${name}_sum`, value: sumUs / 1_000_000, labels });
    values.push({ metricName: `${name}_count`, value: sum, labels });
    return { name, help, type: "histogram", values };
  }
}
