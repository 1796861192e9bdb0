// Every metric that Headgate exports: name, kind, help, labels. docs/metrics.md explains them; process/app/process-metrics.ts fills them.
// A metric that envoyproxy/ratelimit has keeps its name, so that dashboards keep working.

/** One row of the table. */
export interface MetricRow {
  readonly name: string;
  readonly kind: "counter" | "gauge" | "histogram";
  readonly help: string;
  readonly labels: readonly string[];
  /** How several workers' values become one; always `sum` for counters and histograms. */
  readonly aggregation: Aggregation;
}

/** How several workers' values of one series become one. */
type Aggregation = "sum" | "max" | "min";

/** Labels of the counters per rule. `rule` is the whole path; `key1` and `key2` are its first two elements. */
const RULE_LABELS = ["domain", "key1", "key2", "rule", "limit"] as const;

const METHOD = ["grpc_method"] as const;

/** Metrics per rule, by field of LimitStats. They count hits, except those that count holds. */
export const RULE_METRICS = {
  totalHits: ofRule("ratelimit_service_rate_limit_total_hits").means("Hits asked for on the rule."),
  overLimit: ofRule("ratelimit_service_rate_limit_over_limit").means("Hits that found the rule over its limit."),
  nearLimit: ofRule("ratelimit_service_rate_limit_near_limit").means(
    "Hits within the limit, but above NEAR_LIMIT_RATIO of it.",
  ),
  withinLimit: ofRule("ratelimit_service_rate_limit_within_limit").means("Hits within the rule's limit."),
  shadowMode: ofRule("ratelimit_service_rate_limit_shadow_mode").means(
    "Hits over the limit that passed because of shadow mode.",
  ),
  overLimitWithLocalCache: ofRule("ratelimit_service_rate_limit_over_limit_with_local_cache").means(
    "Hits that this process refused from its memory of refusals, without the store.",
  ),
  deniedUnanswered: ofRule("headgate_denied_unanswered_total").means(
    "Hits over the limit because the store did not answer and on_store_failure is deny.",
  ),
  holdsOpened: ofRule("headgate_hold_opened_total").means(
    "Holds that payments on the rule have opened. Only those whose calls received the store's answer.",
  ),
  holdsLive: ofRule("headgate_hold_live", "gauge").means(
    "Holds of the rule that wait for their settlement. A hold that has ended counts until a call notices. With the memory store only.",
  ),
  holdsExpired: ofRule("headgate_hold_expired_total").means(
    "Holds that ended unsettled and were given back. A hold counts when a later call on its bucket notices.",
  ),
  settlements: ofRule("headgate_hold_settlements_total").means("Holds of the rule that were settled in time."),
  heldUnused: ofRule("headgate_hold_unused_hits_total").means("Hits that were held and not used."),
  usedUnheld: ofRule("headgate_hold_exceeded_hits_total").means(
    "Hits that were used beyond what was held: estimates were too low by so much.",
  ),
  settledLate: ofRule("headgate_hold_late_settlements_total").means(
    "Settlements that found no hold, because the hold had ended or was never opened. They are charged as reported.",
  ),
  settledAgain: ofRule("headgate_hold_repeated_settlements_total").means(
    "Settlements of holds that were settled already. They changed nothing.",
  ),
} as const;

/** Metrics that few rules have: a series appears once its value is above 0. */
export const RARE_FIELDS: ReadonlySet<string> = new Set<keyof typeof RULE_METRICS>([
  "deniedUnanswered",
  "holdsOpened",
  "holdsExpired",
  "settlements",
  "heldUnused",
  "usedUnheld",
  "settledLate",
  "settledAgain",
]);

const TLS_ONLY = "With GRPC_SERVER_USE_TLS only.";
const PLANE_ONLY = "With CONFIG_TYPE=GRPC_XDS_SOTW only.";
const SNAPSHOT_ONLY = "With MEMORY_SNAPSHOT only.";
const LOCAL_CACHE_ONLY = "With LOCAL_CACHE_SIZE_IN_BYTES only.";

/** All other metrics. */
export const METRICS = {
  totalRequests: counter("ratelimit_service_total_requests", METHOD).means("Calls, whatever their outcome."),
  responseTime: histogram("ratelimit_service_response_time_seconds", METHOD).means(
    "Time from the first decoded byte to the decision, including the wait for the store.",
  ),
  requestErrors: counter("ratelimit_service_should_rate_limit_error", ["err_type"]).means(
    "Calls that got no decision: redis_error for failures of the store, service_error for all others.",
  ),
  globalShadow: counter("ratelimit_service_global_shadow_mode").means("Calls that passed only because of SHADOW_MODE."),
  domainNotFound: counter("ratelimit_service_domain_not_found").means(
    "Descriptors of calls that named a domain without rules.",
  ),
  decisionLines: counter("headgate_decision_log_lines_total", ["result"]).means(
    "Decisions that DECISION_LOG wrote, and decisions that DECISION_LOG_RATE or the disk left out.",
  ),
  spans: counter("headgate_spans_total", ["result"]).means(
    "Spans by result: sent means that the collector took them, failed that it did not, dropped that the queue was full. With traces only.",
  ),
  unmatched: counter("headgate_unmatched_descriptors_total", ["domain"]).means(
    "Descriptors that matched no rule and passed without a limit of their own. Those of domains without rules are included.",
  ),
  configLoadSuccess: counter("ratelimit_service_config_load_success").means(
    "Loads of the rule files that took effect.",
  ),
  configLoadError: counter("ratelimit_service_config_load_error").means(
    "Loads of the rule files that changed nothing because of errors.",
  ),

  decisions: counter("headgate_decisions_total", ["outcome", "source"]).means("Decisions by outcome and by source."),
  degraded: counter("headgate_degraded_total", ["policy", "reason"]).means(
    "Calls in which on_store_failure replaced an answer of the store, by policy and by the code of the store's error.",
  ),
  refusedRequests: counter("headgate_request_errors_total", ["code"]).means(
    "Requests that could not be understood, by code.",
  ),
  internalErrors: counter("headgate_internal_errors_total").means(
    "Calls that failed because of a fault of Headgate itself.",
  ),
  overloaded: counter("headgate_overloaded_total").means(
    "Calls that were refused because IN_FLIGHT_MAX calls, or 1,000 requests to /json, were under way.",
  ),
  suspectedLateReports: counter("headgate_suspected_late_reports_total").means(
    "Refused takes that look like a report after the fact on a rule that is not post-paid: the limit does not hold back what they report.",
  ),
  debtCapped: counter("headgate_debt_capped_hits_total").means(
    "Post-paid hits beyond debt_max that were not recorded.",
  ),
  statsdErrors: counter("headgate_statsd_errors_total").means(
    "Errors while counters were sent to statsd. Over UDP the content of the packet is lost, over TCP it is sent again.",
  ),
  inFlight: gauge("headgate_calls_in_flight").means("Calls that wait for their decision."),

  fastLaneCalls: counter("headgate_fast_lane_calls_total").means(
    "Calls for decisions and budgets that the fast lane read.",
  ),
  fastLaneStreams: counter("headgate_fast_lane_streams_total").means(
    "Calls of health and reflection that the fast lane read.",
  ),
  fastLaneConnections: counter("headgate_fast_lane_connections_total").means(
    "Connections that the fast lane accepted.",
  ),
  grpcTroubles: counter("headgate_grpc_troubles_total", ["trouble"]).means(
    "Connections that were ended and streams that were refused or reset because of what the peer did. With GRPC_TRANSPORT=grpc-js `waiting_streams`, `partial_requests` and `stream_flood` only.",
  ),

  storeTime: histogram("headgate_store_seconds").means("Time of one round trip to the shared store."),
  storeTakes: counter("headgate_store_takes_total").means("Takes that travelled to the shared store."),
  storeFailures: counter("headgate_store_failures_total", ["code"]).means(
    "Calls that the store failed, by error code; while it is in trouble Headgate's own probes, too.",
  ),
  storeRepeats: counter("headgate_store_repeats_total").means(
    "Round trips that were repeated because PostgreSQL had rolled them back in favour of another transaction.",
  ),
  storeRedirections: counter("headgate_store_redirections_total").means(
    "Round trips that a node of a Redis Cluster redirected to another node before it ran anything.",
  ),
  storeDamaged: counter("headgate_store_damaged_buckets_total").means("Damaged buckets that were reset."),
  storeEvicted: counter("headgate_store_evicted_buckets_total").means(
    "Buckets that were still in use and were dropped to stay within BUCKETS_MAX.",
  ),
  loopLate: counter("headgate_loop_late_total").means(
    "Calls that were answered late because this process was busy, not the store.",
  ),
  outcomeUnknown: counter("headgate_store_outcome_unknown_total").means(
    "Calls whose reply was lost after they may have been paid.",
  ),
  gaveBack: counter("headgate_store_gave_back_total").means(
    "Takes given back to the store: their call was answered without the store or was refused elsewhere, or the rest of a lease was returned.",
  ),
  notGivenBack: counter("headgate_store_not_given_back_total").means(
    "Takes that should have been given back and stay paid: the call that carried them was lost, the store refused it for ten minutes, or more than 10,000 waited.",
  ),
  breakerState: gauge("headgate_store_breaker_state", "max", ["state"]).means(
    "1 for the state of the breaker, 0 for its other states.",
  ),
  breakerChanges: counter("headgate_store_breaker_changes_total", ["state"]).means(
    "Changes of the breaker's state, by the new state.",
  ),
  topRefused: gauge("headgate_top_refused", "sum", ["domain", "rule", "key"]).means(
    "Calls refused within the last minute, for each of the TOP_KEYS_METRICS keys that each process refused most. With TOP_KEYS_METRICS only.",
  ),
  buckets: gauge("headgate_buckets", "max").means("Buckets in the memory of this process."),
  snapshotAge: gauge("headgate_snapshot_age_seconds", "max").means(
    `Seconds since the snapshot in the file was begun: what a crash would lose. ${SNAPSHOT_ONLY}`,
  ),
  snapshotBytes: gauge("headgate_snapshot_bytes", "max").means(`Bytes of the snapshot in the file. ${SNAPSHOT_ONLY}`),
  snapshotSeconds: gauge("headgate_snapshot_write_seconds", "max").means(
    `How long the last snapshot took to write. ${SNAPSHOT_ONLY}`,
  ),
  snapshots: counter("headgate_snapshots_total", ["outcome"]).means(
    `Snapshots that were written, snapshots that could not be written, and files that could not be used at the start. ${SNAPSHOT_ONLY}`,
  ),

  cacheEntries: gauge("ratelimit_localcache_entryCount").means(
    `Counters that the local cache remembers. ${LOCAL_CACHE_ONLY}`,
  ),
  cacheLookups: gauge("ratelimit_localcache_lookupCount").means(
    `Counters looked up in the local cache. ${LOCAL_CACHE_ONLY}`,
  ),
  cacheHits: gauge("ratelimit_localcache_hitCount").means(`Counters found in the local cache. ${LOCAL_CACHE_ONLY}`),
  cacheMisses: gauge("ratelimit_localcache_missCount").means(
    `Counters not found in the local cache. ${LOCAL_CACHE_ONLY}`,
  ),
  cacheExpired: gauge("ratelimit_localcache_expiredCount").means(
    `Counters dropped because their window had ended. ${LOCAL_CACHE_ONLY}`,
  ),
  cacheEvicted: gauge("ratelimit_localcache_evacuateCount").means(
    `Counters dropped for lack of room. ${LOCAL_CACHE_ONLY}`,
  ),

  adminRequests: counter("headgate_admin_requests_total", ["action", "outcome"]).means(
    "Requests to /state, /top, /explain and /buckets that were answered, that were refused for lack of a token, or that failed.",
  ),

  tlsRemaining: gauge("headgate_tls_certificate_remaining_seconds", "min").means(
    `Seconds until the gRPC port's certificate chain expires; below 0 after that. ${TLS_ONLY}`,
  ),
  tlsLifetime: gauge("headgate_tls_certificate_lifetime_seconds", "min").means(
    `Seconds from the start of the gRPC port's certificate until its chain expires. ${TLS_ONLY}`,
  ),
  tlsChanges: counter("headgate_tls_changes_total", ["outcome"]).means(
    `Changes of the certificate files that came into force, and changes that were refused. ${TLS_ONLY}`,
  ),
  tlsLastChangeOk: gauge("headgate_tls_last_change_success", "min").means(
    `1 while the certificate files as they are now are in force, 0 while older ones are. ${TLS_ONLY}`,
  ),

  rulesInfo: gauge("headgate_rules_info", "max", ["version", "hash"]).means("1 for the rule set in force."),
  rulesAge: gauge("headgate_rules_age_seconds", "max").means("Seconds since the rule set in force was loaded."),
  rulesLimits: gauge("headgate_rules_limits", "max").means("Limits of the rule set in force."),
  rulesLastLoadOk: gauge("headgate_rules_last_load_success", "min").means(
    "1 if the last load took effect, 0 if its errors kept the old rules.",
  ),
  planeState: gauge("headgate_control_plane_state", "max", ["state"]).means(
    `1 for the state of the stream to the control plane, 0 for its other states. ${PLANE_ONLY}`,
  ),
  planeSetAge: gauge("headgate_control_plane_set_age_seconds", "max").means(
    `Seconds since the control plane last sent the set in force, or since it was written to RULES_CACHE. ${PLANE_ONLY}`,
  ),
  planeFromCache: gauge("headgate_control_plane_set_from_cache", "max").means(
    `1 while the set in force is from RULES_CACHE and not yet confirmed by the control plane. ${PLANE_ONLY}`,
  ),
  planeStreams: counter("headgate_control_plane_streams_total").means(
    `Streams that were opened, and attempts to open one. ${PLANE_ONLY}`,
  ),
  planeAnswers: counter("headgate_control_plane_answers_total").means(
    `Sets that the control plane has sent. ${PLANE_ONLY}`,
  ),
  planeRefusals: counter("headgate_control_plane_refusals_total").means(`Sets that were refused. ${PLANE_ONLY}`),
  ready: gauge("headgate_ready", "min").means("1 while this process reports that it is ready."),
  workers: gauge("headgate_workers").means(
    "Threads that decide, whose numbers are shown here: 1, or the workers that WORKERS runs.",
  ),
  buildInfo: gauge("headgate_build_info", "max", ["version", "node_version"]).means(
    "1, with the versions of Headgate and of Node.js.",
  ),
} as const;

/** Metrics of several workers. `worker` is a worker's number, which its replacement inherits. */
export const WORKER_METRICS = {
  restarts: counter("headgate_worker_restarts_total").means("Workers that ended unexpectedly and were replaced."),
  moves: counter("headgate_worker_moves_total").means(
    "Connections that were asked to end because their worker had far more open streams than the others.",
  ),
  connections: gauge("headgate_worker_connections", "sum", ["worker"]).means(
    "Connections of the gRPC port that the worker holds.",
  ),
  openStreams: gauge("headgate_worker_open_streams", "sum", ["worker"]).means(
    "Calls open at the same time, averaged over seconds.",
  ),
  calls: counter("headgate_worker_calls_total", ["worker"]).means(
    "Calls that the worker has read, whatever their outcome.",
  ),
} as const;

/** A metric of each rule. Only holds that are live can become fewer. */
function ofRule(name: string, kind: "counter" | "gauge" = "counter"): Row {
  return row({ name, kind, labels: RULE_LABELS, aggregation: "sum" });
}

function counter(name: string, labels: readonly string[] = []): Row {
  return row({ name, kind: "counter", labels, aggregation: "sum" });
}

function gauge(name: string, aggregation: Aggregation = "sum", labels: readonly string[] = []): Row {
  return row({ name, kind: "gauge", labels, aggregation });
}

function histogram(name: string, labels: readonly string[] = []): Row {
  return row({ name, kind: "histogram", labels, aggregation: "sum" });
}

/** A row without its help. */
interface Row {
  means(help: string): MetricRow;
}

function row(without: Omit<MetricRow, "help">): Row {
  return { means: (help) => ({ ...without, help }) };
}
