// All metrics but those of rules: name, labels, help, and where the value comes from. docs/metrics.md explains them.

import { MICROS_PER_SECOND } from "../../base/units.ts";
import { ON_STORE_FAILURE_NAMES } from "../../engine/domain/limit.ts";
import { textOf } from "../../engine/domain/request.ts";
import { ADMIN_ACTIONS, ADMIN_OUTCOMES } from "../../operate/http/admin-watch.ts";
import { byLabel, type Sample } from "../../operate/telemetry/metric-text.ts";
import { BREAKER_STATES, SOURCE_NAMES } from "../../operate/telemetry/observers.ts";
import { MemoryStore } from "../../stores/memory/memory-store.ts";
import { requiringDomains } from "./condition-watch.ts";
import { counter, gauge, histogram, inState, known, secondsSince } from "./metric-rows.ts";
import { tlsNumbers } from "./tls-watch.ts";

const METHOD_LABELS = ["grpc_method"] as const;
const METHOD = { grpc_method: "ShouldRateLimit" };
const PLANE_STATES = ["not connected", "connected, nothing sent yet", "connected"];

/** All other metrics. */
export const METRICS = {
  totalRequests: counter(
    "ratelimit_service_total_requests",
    ({ calls }) => [[calls.total(), METHOD]],
    METHOD_LABELS,
  ).means("Calls, whatever their outcome."),
  responseTime: histogram(
    "ratelimit_service_response_time_seconds",
    ({ calls }) => [[calls.responseTime, METHOD]],
    METHOD_LABELS,
  ).means("Time from the first decoded byte to the decision, store included."),
  requestErrors: counter(
    "ratelimit_service_should_rate_limit_error",
    ({ calls }) =>
      byLabel("err_type", [
        ["redis_error", calls.storeErrors()],
        ["service_error", calls.serviceErrors()],
      ]),
    ["err_type"],
  ).means("Calls without a decision: redis_error for store failures, service_error for all others."),
  globalShadow: counter("ratelimit_service_global_shadow_mode", ({ calls }) => calls.globalShadows).means(
    "Calls that passed only because of SHADOW_MODE.",
  ),
  domainNotFound: counter("ratelimit_service_domain_not_found", ({ calls }) => calls.domainsNotFound).means(
    "Descriptors in domains without rules.",
  ),
  logLinesDropped: counter("headgate_log_lines_dropped_total", ({ logOutput }) => logOutput?.dropped ?? 0).means(
    "Lines of the log that were lost: nobody reads standard output, or its disk is full or hangs.",
  ),
  decisionLines: counter(
    "headgate_decision_log_lines_total",
    ({ decisionLog }) => known("result", { written: decisionLog?.log.written, left_out: decisionLog?.log.leftOut }),
    ["result"],
  ).means("Decisions that DECISION_LOG wrote, or left out because of DECISION_LOG_RATE or the disk."),
  spans: counter(
    "headgate_spans_total",
    ({ running: { traces } }) =>
      known("result", { sent: traces?.counts.sent, failed: traces?.counts.failed, dropped: traces?.counts.dropped }),
    ["result"],
  ).means("Spans: sent, failed (the collector did not take them), dropped (queue full)."),
  unmatched: counter(
    "headgate_unmatched_descriptors_total",
    ({ calls }) => [...calls.domains.entries()].map(({ domain, descriptors }): Sample => [descriptors, { domain }]),
    ["domain"],
  ).means("Descriptors that matched no rule and passed, domains without rules included."),
  incomplete: counter(
    "headgate_incomplete_calls_total",
    ({ reloader: { current } }) =>
      requiringDomains(current).map(({ domain, stats }): Sample => [stats.incomplete, { domain: textOf(domain) }]),
    ["domain"],
  ).means("Calls without an entry that their domain requires. Its on_missing decides them."),
  deadLimits: gauge("headgate_dead_limits", ({ limitWatch: { dead } }) =>
    dead.reduce((sum, { count }) => sum + count, 0),
  ).means("Rules with limits that no call matches."),
  configLoadSuccess: counter("ratelimit_service_config_load_success", ({ reloader }) => reloader.status().loads).means(
    "Rule loads that took effect.",
  ),
  configLoadError: counter("ratelimit_service_config_load_error", ({ reloader }) => reloader.status().failures).means(
    "Rule loads that changed nothing because of errors.",
  ),

  decisions: counter(
    "headgate_decisions_total",
    ({ calls }) =>
      SOURCE_NAMES.flatMap((source, i): Sample[] => [
        [calls.allowed[i] ?? 0, { outcome: "allowed", source }],
        [calls.refused[i] ?? 0, { outcome: "refused", source }],
      ]),
    ["outcome", "source"],
  ).means("Decisions."),
  quotaStreams: gauge("headgate_quota_streams", ({ quota }) => quota.totals().streams).means(
    "Streams of Envoys that get quota.",
  ),
  quotaBuckets: gauge("headgate_quota_buckets", ({ quota }) => quota.totals().buckets).means(
    "Buckets that are handed out to Envoys.",
  ),
  quotaRate: gauge("headgate_quota_per_second", ({ quota }) => quota.totals().perSecond).means(
    "Requests a second that Envoys may let pass, over all buckets.",
  ),
  quotaRequests: counter(
    "headgate_quota_requests_total",
    ({ quota: { counts } }) => known("outcome", { allowed: counts.passed, refused: counts.refused }),
    ["outcome"],
  ).means("Requests that Envoys have decided and reported."),
  quotaRefused: counter(
    "headgate_quota_refused_total",
    ({ quota: { counts } }) =>
      known("reason", { unknown: counts.unknown, too_many: counts.tooMany, streams: counts.refusedStreams }),
    ["reason"],
  ).means("Reported buckets that are denied: no rule hands them out, or they are too many; and streams refused."),
  degraded: counter(
    "headgate_degraded_total",
    ({ calls }) =>
      ON_STORE_FAILURE_NAMES.flatMap((policy, i) =>
        byLabel("reason", Object.entries(calls.degradedByPolicy[i] ?? {}), { policy }),
      ),
    ["policy", "reason"],
  ).means("Calls in which on_store_failure replaced an answer of the store. The reason is the store's error code."),
  refusedRequests: counter(
    "headgate_request_errors_total",
    ({ calls }) =>
      byLabel(
        "code",
        Object.entries(calls.requestErrors).filter(([, count]) => count > 0),
      ),
    ["code"],
  ).means("Invalid requests."),
  internalErrors: counter("headgate_internal_errors_total", ({ calls }) => calls.internalErrors).means(
    "Calls that failed because of a bug in Headgate.",
  ),
  unserved: counter(
    "headgate_grpc_unserved_calls_total",
    ({ calls }) => byLabel("reason", Object.entries(calls.unserved)),
    ["reason"],
  ).means("gRPC calls that got UNIMPLEMENTED: compressed messages, RLS v2, Lyft's protocol, other methods."),
  overloaded: counter("headgate_overloaded_total", ({ calls }) => calls.overloadedCalls).means(
    "Calls refused because IN_FLIGHT_MAX calls, or 1,000 requests to /json, were under way.",
  ),
  suspectedLateReports: counter("headgate_suspected_late_reports_total", ({ calls }) => calls.lateReports).means(
    "Takes that look like reports after the fact, on a limit that never refuses because of them.",
  ),
  debtCapped: counter("headgate_debt_capped_hits_total", ({ calls }) => calls.cappedHits).means(
    "Post-paid hits beyond debt_max, not recorded.",
  ),
  statsdErrors: counter("headgate_statsd_errors_total", ({ running }) => running.statsd?.errors ?? 0).means(
    "Errors in sending to statsd. Over TCP the content is sent again.",
  ),
  inFlight: gauge("headgate_calls_in_flight", ({ running }) => running.grpc?.inFlight() ?? 0).means(
    "Calls that wait for their decision.",
  ),

  fastLaneStreams: counter(
    "headgate_fast_lane_streams_total",
    ({ running }) => running.grpc?.counts?.streams ?? 0,
  ).means("Health and reflection calls that the fast lane read."),
  fastLaneConnections: counter(
    "headgate_fast_lane_connections_total",
    ({ running }) => running.grpc?.counts?.connections ?? 0,
  ).means("Connections that the fast lane accepted."),
  grpcTroubles: counter(
    "headgate_grpc_troubles_total",
    ({ running }) => byLabel("trouble", Object.entries(running.grpc?.troubles ?? {})),
    ["trouble"],
  ).means(
    "Connections ended, and streams refused or reset, because of the peer. With GRPC_TRANSPORT=grpc-js only `waiting_streams`, `partial_requests`, `stream_flood`.",
  ),

  storeDeadline: gauge("headgate_store_deadline_seconds", ({ settings: { storeDeadlineUs, backendType } }) =>
    backendType === "memory" ? undefined : storeDeadlineUs / MICROS_PER_SECOND,
  ).means("STORE_DEADLINE, for the alert HeadgateStoreSlow."),
  storeTime: histogram("headgate_store_seconds", ({ storeCounts }) => [[storeCounts.roundTrip, {}]]).means(
    "Time of one round trip to the shared store.",
  ),
  storeTakes: counter("headgate_store_takes_total", ({ storeCounts }) => storeCounts.takes).means(
    "Takes sent to the shared store.",
  ),
  storeFailures: counter(
    "headgate_store_failures_total",
    ({ storeCounts }) => byLabel("code", Object.entries(storeCounts.failures)),
    ["code"],
  ).means("Failed store calls. While the store is in trouble also Headgate's probes."),
  storeRepeats: counter("headgate_store_repeats_total", ({ storeCounts }) => storeCounts.repeats).means(
    "Round trips repeated because PostgreSQL rolled them back in favour of another transaction.",
  ),
  storeRedirections: counter("headgate_store_redirections_total", ({ storeCounts }) => storeCounts.redirections).means(
    "Round trips that a Redis Cluster node redirected before it ran anything.",
  ),
  storeDamaged: counter("headgate_store_damaged_buckets_total", ({ storeCounts }) => storeCounts.damagedBuckets).means(
    "Damaged buckets that were reset.",
  ),
  storeEvicted: counter("headgate_store_evicted_buckets_total", ({ storeCounts }) => storeCounts.evictedBuckets).means(
    "Buckets in use that were dropped to stay within BUCKETS_MAX.",
  ),
  loopLate: counter("headgate_loop_late_total", ({ storeCounts }) => storeCounts.lateGroups).means(
    "Calls answered late because this process was busy, not the store.",
  ),
  outcomeUnknown: counter(
    "headgate_store_outcome_unknown_total",
    ({ storeCounts }) => storeCounts.unknownOutcomes,
  ).means("Calls whose reply was lost after they may have been paid."),
  gaveBack: counter("headgate_store_gave_back_total", ({ storeCounts }) => storeCounts.givenBack).means(
    "Takes given back: answered without the store, refused elsewhere, or left of a lease.",
  ),
  notGivenBack: counter("headgate_store_not_given_back_total", ({ storeCounts }) => storeCounts.notGivenBack).means(
    "Takes that should have been given back and stay paid: lost, refused by the store for ten minutes, or beyond 10,000 waiting.",
  ),
  breakerState: gauge(
    "headgate_store_breaker_state",
    ({ storeCounts }) => inState(BREAKER_STATES, storeCounts.breakerState),
    ["state"],
  ).means("1 for the breaker's state, 0 for the others."),
  breakerChanges: counter(
    "headgate_store_breaker_changes_total",
    ({ storeCounts }) => byLabel("state", Object.entries(storeCounts.breakerChanges)),
    ["state"],
  ).means("Changes of the breaker to this state."),
  topRefused: gauge("headgate_top_refused", ({ refused }) => refused, ["domain", "rule", "key"]).means(
    "Calls refused within the last minute, for the TOP_KEYS_METRICS keys that each process refused most.",
  ),
  buckets: gauge("headgate_buckets", ({ store }) =>
    store instanceof MemoryStore ? store.bucketCount : undefined,
  ).means("Buckets in the memory of this process."),
  snapshotAge: gauge("headgate_snapshot_age_seconds", ({ snapshots, clock }) =>
    secondsSince(snapshots?.state.beganAtUs, clock),
  ).means("Seconds since the snapshot in the file began: what a crash would lose."),
  snapshots: counter(
    "headgate_snapshots_total",
    ({ snapshots }) => {
      const { written, failed, refused } = snapshots?.state ?? {};
      return known("outcome", { written, failed, refused });
    },
    ["outcome"],
  ).means("Snapshots: written, failed, or refused at start as unusable."),

  cacheEntries: gauge("ratelimit_localcache_entryCount", ({ localCache }) => localCache?.size).means(
    "Counters in the local cache.",
  ),
  cacheLookups: gauge("ratelimit_localcache_lookupCount", ({ localCache }) => localCache?.lookups).means(
    "Counters looked up in the local cache.",
  ),
  cacheHits: gauge("ratelimit_localcache_hitCount", ({ localCache }) => localCache?.hits).means("Counters found."),
  cacheMisses: gauge(
    "ratelimit_localcache_missCount",
    ({ localCache }) => localCache && localCache.lookups - localCache.hits,
  ).means("Counters not found."),
  cacheExpired: gauge("ratelimit_localcache_expiredCount", ({ localCache }) => localCache?.expired).means(
    "Counters dropped because their window ended.",
  ),
  cacheEvicted: gauge("ratelimit_localcache_evacuateCount", ({ localCache }) => localCache?.evicted).means(
    "Counters dropped for lack of room.",
  ),

  runtimeLimits: gauge(
    "headgate_runtime_limits",
    ({ limitCounts }) => limitCounts && byLabel("kind", Object.entries(limitCounts.inForce)),
    ["kind"],
  ).means(
    "Limits at run time in force; `idle`: those that do nothing, because the rules changed or they can't be read.",
  ),
  runtimeFailures: counter(
    "headgate_runtime_limits_failures_total",
    ({ runtimeLimits: { sync } }) => sync.failures,
  ).means("Failed updates of limits at run time."),

  httpClosed: counter(
    "headgate_http_connections_closed_total",
    ({ running: { pages } }) =>
      (["connections", "requests", "answers"] as const).map((reason): Sample => {
        return [pages.reduce((sum, { closed }) => sum + closed[reason], 0), { reason }];
      }),
    ["reason"],
  ).means(
    "Connections of the HTTP ports closed to stay within bounds: too many connections, bytes of unfinished requests, or of unread answers.",
  ),
  adminRequests: counter(
    "headgate_admin_requests_total",
    ({ adminWatch }) =>
      ADMIN_ACTIONS.flatMap((action) =>
        ADMIN_OUTCOMES.map((outcome): Sample => [adminWatch.of(action, outcome), { action, outcome }]),
      ),
    ["action", "outcome"],
  ).means("Requests to /state, /top, /explain, /buckets, /limits: answered, refused (no token), failed."),

  tlsRemaining: gauge(
    "headgate_tls_certificate_remaining_seconds",
    ({ running }) => tlsNumbers(running.tls)?.remainingSeconds,
  ).means("Seconds until the gRPC port's certificate chain expires; below 0 after that."),
  tlsLifetime: gauge(
    "headgate_tls_certificate_lifetime_seconds",
    ({ running }) => tlsNumbers(running.tls)?.lifetimeSeconds,
  ).means("Seconds from the certificate's start until its chain expires."),
  tlsChanges: counter(
    "headgate_tls_changes_total",
    ({ running: { tls } }) => known("outcome", { renewed: tls?.status().renewals, refused: tls?.status().refusals }),
    ["outcome"],
  ).means("Changes of the certificate files that took effect or were refused."),
  tlsLastChangeOk: gauge(
    "headgate_tls_last_change_success",
    ({ running: { tls } }) => tls && Number(tls.status().refusal === undefined),
  ).means("1 if the current certificate files are active, 0 if older ones are."),

  rulesInfo: gauge(
    "headgate_rules_info",
    ({ reloader: { current } }) =>
      current === undefined ? [] : [[1, { version: String(current.version), hash: current.hash }]],
    ["version", "hash"],
  ).means("1 for the active rule set."),
  rulesAge: gauge("headgate_rules_age_seconds", ({ reloader, clock }) =>
    secondsSince(reloader.status().loadedAtUs, clock),
  ).means("Seconds since the active rule set was loaded."),
  rulesLimits: gauge(
    "headgate_rules_limits",
    ({ reloader: { current } }) =>
      current && [...current.domains.values()].reduce((sum, { limits }) => sum + limits.length, 0),
  ).means("Limits of the active rule set."),
  rulesLastLoadOk: gauge("headgate_rules_last_load_success", ({ reloader }) =>
    Number(reloader.status().lastError === undefined),
  ).means("1 if the last load took effect, 0 if its errors kept the old rules."),
  planeState: gauge("headgate_control_plane_state", ({ xds }) => xds && inState(PLANE_STATES, xds.xdsStatus().state), [
    "state",
  ]).means("1 for the state of the stream to the control plane, 0 for the others."),
  planeSetAge: gauge("headgate_control_plane_set_age_seconds", ({ xds, clock }) =>
    secondsSince(xds?.xdsStatus().heardAtUs, clock),
  ).means("Seconds since the control plane last sent the active set, or since it was written to RULES_CACHE."),
  planeAnswers: counter("headgate_control_plane_answers_total", ({ xds }) => xds?.xdsStatus().answers ?? 0).means(
    "Sets received.",
  ),
  planeRefusals: counter("headgate_control_plane_refusals_total", ({ xds }) => xds?.xdsStatus().refusals ?? 0).means(
    "Sets refused.",
  ),
  ready: gauge("headgate_ready", ({ health }) => Number(health.isServing())).means("1 while this process is ready."),
  workers: gauge("headgate_workers", () => 1).means("1. Deprecated: a process has no workers any more."),
  buildInfo: gauge("headgate_build_info", ({ version }) => [[1, { version, node_version: process.version }]], [
    "version",
    "node_version",
  ]).means("1, with the versions of Headgate and Node.js."),
} as const;
