// Every metric that Headgate exports: name, kind, help, labels. docs/metrics.md explains them; prometheus.ts fills them.
// Names of envoyproxy/ratelimit where it has them, so that dashboards keep working.

/** One row of the table. */
export interface MetricRow {
  readonly name: string;
  readonly kind: "counter" | "gauge" | "histogram";
  readonly help: string;
  readonly labels: readonly string[];
  /** What several workers show together. Counters and histograms are added up. */
  readonly aggregation: Aggregation;
}

/** How the values that several processes have of one series become one. */
export type Aggregation = "sum" | "max" | "min";

/** Labels of the counters per rule. `rule` is the whole path; `key1` and `key2` are its first two elements. */
const RULE_LABELS = ["domain", "key1", "key2", "rule", "limit"] as const;

const METHOD = ["grpc_method"] as const;

/** Numbers per rule, in hits where they don't count holds; the key is the field of LimitStats. */
export const RULE_METRICS = {
  totalHits: counter("ratelimit_service_rate_limit_total_hits", "Hits asked for on the rule.", RULE_LABELS),
  overLimit: counter(
    "ratelimit_service_rate_limit_over_limit",
    "Hits that found the rule over its limit.",
    RULE_LABELS,
  ),
  nearLimit: counter(
    "ratelimit_service_rate_limit_near_limit",
    "Hits within the limit but above NEAR_LIMIT_RATIO of it.",
    RULE_LABELS,
  ),
  withinLimit: counter("ratelimit_service_rate_limit_within_limit", "Hits within the rule's limit.", RULE_LABELS),
  shadowMode: counter(
    "ratelimit_service_rate_limit_shadow_mode",
    "Hits over the limit that passed because of shadow mode.",
    RULE_LABELS,
  ),
  overLimitWithLocalCache: counter(
    "ratelimit_service_rate_limit_over_limit_with_local_cache",
    "Hits refused from what this process remembers of refusals, without the store.",
    RULE_LABELS,
  ),
  holdsOpened: counter(
    "headgate_hold_opened_total",
    "Holds that payments on the rule have opened, of calls that heard of it.",
    RULE_LABELS,
  ),
  holdsLive: gauge(
    "headgate_hold_live",
    "Holds of the rule that wait for their settlement; those that have ended until a call notices. With the memory store only.",
    RULE_LABELS,
  ),
  holdsExpired: counter(
    "headgate_hold_expired_total",
    "Holds that ended unsettled and were given back, as far as a later call on their bucket has noticed.",
    RULE_LABELS,
  ),
  settlements: counter("headgate_hold_settlements_total", "Holds of the rule that were settled in time.", RULE_LABELS),
  heldUnused: counter("headgate_hold_unused_hits_total", "Hits that were held and not used.", RULE_LABELS),
  usedUnheld: counter(
    "headgate_hold_exceeded_hits_total",
    "Hits that were used beyond what was held: by so much estimates were too low.",
    RULE_LABELS,
  ),
  settledLate: counter(
    "headgate_hold_late_settlements_total",
    "Settlements that found no hold, because it had ended or was never opened; charged as reported.",
    RULE_LABELS,
  ),
  settledAgain: counter(
    "headgate_hold_repeated_settlements_total",
    "Settlements of what was settled already, which changed nothing.",
    RULE_LABELS,
  ),
} as const;

/** Counters that only rules with holds have: their series begin when they move. */
export const HOLD_FIELDS: ReadonlySet<string> = new Set<keyof typeof RULE_METRICS>([
  "holdsOpened",
  "holdsExpired",
  "settlements",
  "heldUnused",
  "usedUnheld",
  "settledLate",
  "settledAgain",
]);

/** Everything else. */
export const METRICS = {
  totalRequests: counter("ratelimit_service_total_requests", "Calls, whatever came of them.", METHOD),
  responseTime: histogram(
    "ratelimit_service_response_time_seconds",
    "Time from the first byte decoded to the decision, the wait for the store included.",
    METHOD,
  ),
  requestErrors: counter(
    "ratelimit_service_should_rate_limit_error",
    "Calls that got no decision: redis_error for the store's failures, service_error for all others.",
    ["err_type"],
  ),
  globalShadow: counter("ratelimit_service_global_shadow_mode", "Calls that passed only because of SHADOW_MODE."),
  domainNotFound: counter(
    "ratelimit_service_domain_not_found",
    "Descriptors of calls that named a domain without rules.",
  ),
  decisionLines: counter(
    "headgate_decision_log_lines_total",
    "Decisions that DECISION_LOG wrote, and that its rate or the disk left out.",
    ["result"],
  ),
  spans: counter(
    "headgate_spans_total",
    "Spans that the collector took, that it did not take, and that were dropped for lack of room, if calls are traced.",
    ["result"],
  ),
  unmatched: counter(
    "headgate_unmatched_descriptors_total",
    "Descriptors that met no rule and passed without a limit of their own; also those of domains without rules.",
    ["domain"],
  ),
  configLoadSuccess: counter("ratelimit_service_config_load_success", "Loads of the rule files that took effect."),
  configLoadError: counter(
    "ratelimit_service_config_load_error",
    "Loads of the rule files that changed nothing for their errors.",
  ),

  decisions: counter("headgate_decisions_total", "Decisions by outcome and by where they came from.", [
    "outcome",
    "source",
  ]),
  degraded: counter(
    "headgate_degraded_total",
    "Calls in which on_store_failure stood in for an answer of the store, by policy and by what the store did.",
    ["policy", "reason"],
  ),
  refusedRequests: counter("headgate_request_errors_total", "Requests that could not be understood, by code.", [
    "code",
  ]),
  internalErrors: counter("headgate_internal_errors_total", "Calls that failed by a fault of Headgate itself."),
  overloaded: counter("headgate_overloaded_total", "Calls turned away because more were under way than IN_FLIGHT_MAX."),
  suspectedLateReports: counter(
    "headgate_suspected_late_reports_total",
    "Refused hits that look like a report after the fact on a rule that is not post-paid: the limit does not bite.",
  ),
  debtCapped: counter("headgate_debt_capped_hits_total", "Post-paid hits beyond debt_max that were not recorded."),
  statsdErrors: counter(
    "headgate_statsd_errors_total",
    "Errors while counters were sent to statsd: over UDP what the packet held is lost, over TCP it is sent again.",
  ),
  inFlight: gauge("headgate_calls_in_flight", "Calls that wait for their decision."),

  laneCalls: counter("headgate_fast_lane_calls_total", "Calls that the fast lane read by itself."),
  laneHanded: counter("headgate_fast_lane_handed_streams_total", "Streams that the fast lane handed to grpc-js."),
  laneConnections: counter("headgate_fast_lane_connections_total", "Connections that the fast lane accepted."),
  laneTroubles: counter(
    "headgate_fast_lane_troubles_total",
    "Connections that were ended, and streams that were refused, for what the peer did.",
    ["trouble"],
  ),

  storeTime: histogram("headgate_store_seconds", "Time of one round trip to the shared store."),
  storeTakes: counter("headgate_store_takes_total", "Takes that travelled to the shared store."),
  storeFailures: counter("headgate_store_failures_total", "Calls that the store failed, by code.", ["code"]),
  storeRepeats: counter(
    "headgate_store_repeats_total",
    "Round trips made again because PostgreSQL had undone them for the sake of another one.",
  ),
  storeRedirections: counter(
    "headgate_store_redirections_total",
    "Round trips that a node of a Redis Cluster sent on to another node, having run nothing.",
  ),
  storeDamaged: counter("headgate_store_damaged_buckets_total", "Damaged buckets that were treated as new."),
  storeEvicted: counter(
    "headgate_store_evicted_buckets_total",
    "Buckets that still meant something and were dropped to stay within BUCKETS_MAX.",
  ),
  loopLate: counter("headgate_loop_late_total", "Calls answered late because this process was busy, not the store."),
  outcomeUnknown: counter(
    "headgate_store_outcome_unknown_total",
    "Calls whose reply was lost after they may have been paid.",
  ),
  gaveBack: counter(
    "headgate_store_gave_back_total",
    "Takes given back to the store: their call had been answered without it or was refused elsewhere, or a lease's rest went home.",
  ),
  notGivenBack: counter(
    "headgate_store_not_given_back_total",
    "Takes that were to be given back and stay paid: the call that carried them was lost, the store refused it for ten minutes, or more than 10,000 waited.",
  ),
  breakerState: gauge(
    "headgate_store_breaker_state",
    "1 for the state that the breaker is in, 0 for the others.",
    ["state"],
    "max",
  ),
  breakerChanges: counter("headgate_store_breaker_changes_total", "Changes of the breaker's state, by the new state.", [
    "state",
  ]),
  topRefused: gauge(
    "headgate_top_refused",
    "Calls refused within the last minute, of the keys that are refused most, the first TOP_KEYS_METRICS of each process. With TOP_KEYS_METRICS only.",
    ["domain", "rule", "key"],
  ),
  buckets: gauge("headgate_buckets", "Buckets that live in this process."),
  snapshotAge: gauge(
    "headgate_snapshot_age_seconds",
    "Seconds since the snapshot was begun that stands in the file of MEMORY_SNAPSHOT: what a crash would lose. With MEMORY_SNAPSHOT only, as are those below.",
    [],
    "max",
  ),
  snapshotBytes: gauge("headgate_snapshot_bytes", "Bytes of that snapshot.", [], "max"),
  snapshotSeconds: gauge("headgate_snapshot_write_seconds", "How long it took to write the last one.", [], "max"),
  snapshots: counter(
    "headgate_snapshots_total",
    "Snapshots that were written or could not be, and files found at a start that could not be used.",
    ["outcome"],
  ),

  cacheEntries: gauge("ratelimit_localcache_entryCount", "Counters that the local cache remembers."),
  cacheLookups: gauge("ratelimit_localcache_lookupCount", "Counters looked up in the local cache."),
  cacheHits: gauge("ratelimit_localcache_hitCount", "Counters found in the local cache."),
  cacheMisses: gauge("ratelimit_localcache_missCount", "Counters not found in the local cache."),
  cacheExpired: gauge("ratelimit_localcache_expiredCount", "Counters dropped because their window had ended."),
  cacheEvicted: gauge("ratelimit_localcache_evacuateCount", "Counters dropped for want of room."),

  adminRequests: counter(
    "headgate_admin_requests_total",
    "Requests to /state, /top, /explain and /buckets that were done, refused for want of a token, or failed.",
    ["action", "outcome"],
  ),

  tlsRemaining: gauge(
    "headgate_tls_certificate_remaining_seconds",
    "Seconds until the first certificate of the gRPC port's chain expires; below 0 it has. With GRPC_SERVER_USE_TLS only.",
    [],
    "min",
  ),
  tlsLifetime: gauge(
    "headgate_tls_certificate_lifetime_seconds",
    "Seconds from the start of the gRPC port's certificate to that end. With GRPC_SERVER_USE_TLS only.",
    [],
    "min",
  ),
  tlsChanges: counter(
    "headgate_tls_changes_total",
    "Changes of the certificate files that came in force, and those that were refused. With GRPC_SERVER_USE_TLS only.",
    ["outcome"],
  ),
  tlsLastChangeOk: gauge(
    "headgate_tls_last_change_success",
    "1 while the certificate files as they are now are in force, 0 while older ones are. With GRPC_SERVER_USE_TLS only.",
    [],
    "min",
  ),

  rulesInfo: gauge("headgate_rules_info", "1 for the rule set in force.", ["version", "hash"], "max"),
  rulesAge: gauge("headgate_rules_age_seconds", "Seconds since the rule set in force was loaded.", [], "max"),
  rulesLimits: gauge("headgate_rules_limits", "Limits of the rule set in force.", [], "max"),
  rulesLastLoadOk: gauge(
    "headgate_rules_last_load_success",
    "1 if the last load took effect, 0 if its errors kept the old rules.",
    [],
    "min",
  ),
  planeState: gauge(
    "headgate_control_plane_state",
    "1 for how the stream to the control plane stands, 0 for the others. With CONFIG_TYPE=GRPC_XDS_SOTW only, as are those below.",
    ["state"],
    "max",
  ),
  planeSetAge: gauge(
    "headgate_control_plane_set_age_seconds",
    "Seconds since the control plane last sent the set in force; of one from RULES_CACHE, since it was kept.",
    [],
    "max",
  ),
  planeFromCache: gauge(
    "headgate_control_plane_set_from_cache",
    "1 while the set in force is that of RULES_CACHE, which the control plane has not confirmed yet.",
    [],
    "max",
  ),
  planeStreams: counter("headgate_control_plane_streams_total", "Streams that were opened or tried."),
  planeAnswers: counter("headgate_control_plane_answers_total", "Sets that the control plane has sent."),
  planeRefusals: counter("headgate_control_plane_refusals_total", "Refusals that it was sent."),
  ready: gauge("headgate_ready", "1 while this process says that it is ready.", [], "min"),
  workers: gauge("headgate_workers", "Processes whose numbers are shown here: 1, or the workers that WORKERS runs."),
  buildInfo: gauge(
    "headgate_build_info",
    "1, with the versions of Headgate and of Node.js.",
    ["version", "node_version"],
    "max",
  ),
} as const;

/** What the supervisor of several workers adds to their sums. `worker` is a worker's number; a new one in its place begins anew. */
export const WORKER_METRICS = {
  restarts: counter("headgate_worker_restarts_total", "Workers that ended unasked and were replaced."),
  moves: counter(
    "headgate_worker_moves_total",
    "Connections asked to go because their worker had far more open streams than the others.",
  ),
  connections: gauge("headgate_worker_connections", "Connections of the gRPC port that the worker holds.", ["worker"]),
  openStreams: gauge("headgate_worker_open_streams", "Calls open at once, averaged over seconds.", ["worker"]),
  calls: counter("headgate_worker_calls_total", "Calls that the worker has read, whatever came of them.", ["worker"]),
} as const;

/** The gauges of Node.js and of the process, which prom-client fills, as several workers show them together. */
export const PROCESS_GAUGES: Readonly<Record<string, Aggregation>> = {
  process_start_time_seconds: "min",
  process_resident_memory_bytes: "sum",
  process_virtual_memory_bytes: "sum",
  process_heap_bytes: "sum",
  process_open_fds: "sum",
  process_max_fds: "min",
  nodejs_eventloop_lag_seconds: "max",
  nodejs_eventloop_lag_min_seconds: "min",
  nodejs_eventloop_lag_max_seconds: "max",
  nodejs_eventloop_lag_mean_seconds: "max",
  nodejs_eventloop_lag_stddev_seconds: "max",
  nodejs_eventloop_lag_p50_seconds: "max",
  nodejs_eventloop_lag_p90_seconds: "max",
  nodejs_eventloop_lag_p99_seconds: "max",
  nodejs_active_resources: "sum",
  nodejs_active_resources_total: "sum",
  nodejs_active_handles: "sum",
  nodejs_active_handles_total: "sum",
  nodejs_active_requests: "sum",
  nodejs_active_requests_total: "sum",
  nodejs_heap_size_total_bytes: "sum",
  nodejs_heap_size_used_bytes: "sum",
  nodejs_external_memory_bytes: "sum",
  nodejs_heap_space_size_total_bytes: "sum",
  nodejs_heap_space_size_used_bytes: "sum",
  nodejs_heap_space_size_available_bytes: "sum",
  nodejs_version_info: "max",
};

const GAUGES: ReadonlyMap<string, Aggregation> = new Map([
  ...Object.entries(PROCESS_GAUGES),
  ...[...Object.values(METRICS), ...Object.values(WORKER_METRICS)].map(
    ({ name, aggregation }) => [name, aggregation] as const,
  ),
]);

/** How a metric of several workers becomes one: as its row says, and a sum for all that has none. */
export function aggregationOf(name: string): Aggregation {
  return GAUGES.get(name) ?? "sum";
}

function counter(name: string, help: string, labels: readonly string[] = []): MetricRow {
  return { name, kind: "counter", help, labels, aggregation: "sum" };
}

function gauge(
  name: string,
  help: string,
  labels: readonly string[] = [],
  aggregation: Aggregation = "sum",
): MetricRow {
  return { name, kind: "gauge", help, labels, aggregation };
}

function histogram(name: string, help: string, labels: readonly string[] = []): MetricRow {
  return { name, kind: "histogram", help, labels, aggregation: "sum" };
}
