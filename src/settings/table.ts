// Every setting that Headgate reads, once: name, type, default, help. settings.ts reads them, docs/settings.md lists them.

import { ON_STORE_FAILURE_NAMES } from "../core/limit.ts";
import { optional, type Setting, setting, under } from "./setting.ts";
import {
  BOOLEAN,
  decimalNumber,
  durationMs,
  durationUs,
  HEADER_NAME,
  HOST_NAME,
  KEY_PREFIX,
  listOf,
  oneOf,
  PATH,
  PORT,
  TAGS,
  TEXT,
  URL_PATH,
  wholeNumber,
} from "./value-types.ts";

const DAY_MS = 86_400_000;
const HEADER_DIALECTS = ["ratelimit", "structured", "x-ratelimit"] as const;
const LOG_LEVELS = ["fatal", "error", "warn", "info", "debug", "trace", "silent"] as const;

/** The families of rate limit headers that answers may carry. */
export type HeaderDialect = (typeof HEADER_DIALECTS)[number];
export type OnStoreFailureName = (typeof ON_STORE_FAILURE_NAMES)[number];
export type LogLevel = (typeof LOG_LEVELS)[number];

/** The table: field of Settings -> its variable. */
export const SETTINGS = {
  ...under("Rules", {
    rulesDir: optional(
      "RULES_DIR",
      PATH,
      "Directory of the rule files (`*.yaml`, `*.yml`, `*.json`), searched with its subdirectories. In the RUNTIME_* directory every file counts.",
      {
        defaultShown:
          "the RUNTIME_* directory if RUNTIME_ROOT or RUNTIME_SUBDIRECTORY is set, else the `deploy/rules` that comes with Headgate",
      },
    ),
    rulesPollIntervalMs: setting(
      "RULES_POLL_INTERVAL",
      durationMs(100, DAY_MS),
      2_000,
      "How often the content of the rule files is compared, beside watching for changes.",
    ),
    runtimeRoot: setting(
      "RUNTIME_ROOT",
      PATH,
      "/srv/runtime_data/current",
      "First part of the rules directory where RULES_DIR is not set.",
    ),
    runtimeSubdirectory: setting("RUNTIME_SUBDIRECTORY", PATH, "", "Second part of the rules directory."),
    runtimeAppDirectory: setting("RUNTIME_APPDIRECTORY", PATH, "config", "Third part of the rules directory."),
    ignoresDotFiles: optional(
      "RUNTIME_IGNOREDOTFILES",
      BOOLEAN,
      "Leaves out files and directories whose name begins with a dot; those whose name begins with two are left out in any case (a mounted ConfigMap holds each file a second time under `..data`).",
      { defaultShown: "`true`, under COMPATIBILITY_MODE `false`" },
    ),
    runtimeWatchRoot: setting(
      "RUNTIME_WATCH_ROOT",
      BOOLEAN,
      true,
      "Accepted and without effect: a swapped link is noticed as well as an edited file.",
    ),
    mergesDomains: setting(
      "MERGE_DOMAIN_CONFIG",
      BOOLEAN,
      false,
      "Joins files that name the same domain; otherwise that is an error.",
    ),
    startsWithoutRules: setting(
      "FORCE_START_WITHOUT_INITIAL_CONFIG",
      BOOLEAN,
      false,
      "Accepted and without effect: the process always starts, and is not ready until its rule files can be used.",
    ),
    readyNeedsDomain: setting(
      "HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED",
      BOOLEAN,
      false,
      "Is ready only with at least one domain loaded; otherwise rules without any domain will do.",
    ),
  }),
  ...under("Listening", {
    grpcHost: setting("GRPC_HOST", HOST_NAME, "0.0.0.0", "Address that the gRPC port listens on."),
    grpcPort: setting("GRPC_PORT", PORT, 8081, "Port of gRPC; 0 takes a free one."),
    grpcUnixSocket: optional(
      "GRPC_UDS",
      PATH,
      "Path of a Unix socket to serve gRPC on in place of GRPC_HOST and GRPC_PORT.",
    ),
    grpcUsesTls: setting("GRPC_SERVER_USE_TLS", BOOLEAN, false, "Serves gRPC over TLS."),
    grpcTlsCertFile: optional(
      "GRPC_SERVER_TLS_CERT",
      PATH,
      "File of the certificate chain (PEM); read again when it changes.",
      {
        isFile: true,
      },
    ),
    grpcTlsKeyFile: optional(
      "GRPC_SERVER_TLS_KEY",
      PATH,
      "File of the certificate's key (PEM); read again when it changes.",
      {
        isFile: true,
      },
    ),
    grpcClientCaFile: optional(
      "GRPC_CLIENT_TLS_CACERT",
      PATH,
      "File of the authorities (PEM) that clients must have a certificate of; no others are trusted.",
      { isFile: true, defaultShown: "clients need no certificate" },
    ),
    grpcGatewayCaFile: optional(
      "GRPC_SERVER_TLS_CA_CERT",
      PATH,
      "The same, under the name that Envoy Gateway sets; GRPC_CLIENT_TLS_CACERT goes first.",
      { isFile: true },
    ),
    grpcClientName: optional("GRPC_CLIENT_TLS_SAN", TEXT, "DNS name that client certificates must carry.", {
      defaultShown: "any name",
    }),
    grpcReflection: optional("GRPC_REFLECTION", BOOLEAN, "Answers gRPC server reflection.", {
      defaultShown: "`true`, under COMPATIBILITY_MODE `false`",
    }),
    grpcMaxConnectionAgeMs: setting(
      "GRPC_MAX_CONNECTION_AGE",
      durationMs(0, 365 * DAY_MS),
      1_800_000,
      "Age at which a connection is asked to end, within 10 %, so that callers spread over new processes. 0 is never.",
    ),
    grpcMaxConnectionAgeGraceMs: setting(
      "GRPC_MAX_CONNECTION_AGE_GRACE",
      durationMs(0, DAY_MS),
      60_000,
      "How long calls of such a connection may still take.",
    ),
    httpHost: setting("HOST", HOST_NAME, "0.0.0.0", "Address that the HTTP port listens on."),
    httpPort: setting("PORT", PORT, 8080, "Port of HTTP (`/json`, health, metrics, explain); 0 takes a free one."),
    requestBytesMax: setting(
      "REQUEST_BYTES_MAX",
      wholeNumber(1_024, 67_108_864),
      4_194_304,
      "Longest request, by gRPC and by HTTP, in bytes.",
    ),
    inFlightMax: setting(
      "IN_FLIGHT_MAX",
      wholeNumber(1, 1_000_000),
      10_000,
      "Most calls under way at once; more are answered RESOURCE_EXHAUSTED.",
    ),
    shutdownDelayMs: setting(
      "SHUTDOWN_DELAY",
      durationMs(0, 3_600_000),
      5_000,
      "How long after SIGTERM calls are still accepted, while readiness already says no.",
    ),
    shutdownGraceMs: setting(
      "SHUTDOWN_GRACE",
      durationMs(0, 3_600_000),
      20_000,
      "How long after that calls under way may take.",
    ),
  }),
  ...under("Store", {
    backendType: optional(
      "BACKEND_TYPE",
      oneOf(["memory", "redis"]),
      "Where buckets live: in this process, or in Redis, shared by all processes.",
      {
        defaultShown: "redis if REDIS_URL is set, else memory",
      },
    ),
    bucketsMax: setting(
      "BUCKETS_MAX",
      wholeNumber(1, 100_000_000),
      1_000_000,
      "Most buckets that the memory store holds; the ones nearest to being as new give way.",
    ),
    denialsMax: setting(
      "DENIALS_MAX",
      wholeNumber(0, 10_000_000),
      100_000,
      "Most buckets whose refusal is remembered for up to a second, so that it is repeated without asking Redis (docs/hot-keys.md). 0 asks every time.",
    ),
    onStoreFailure: optional(
      "ON_STORE_FAILURE",
      oneOf(ON_STORE_FAILURE_NAMES),
      "What a call gets when the store fails, where its rule does not say: allow it, deny it, decide locally, or answer an error.",
      { defaultShown: "`allow`, under COMPATIBILITY_MODE `error`" },
    ),
    storeDeadlineUs: setting(
      "STORE_DEADLINE",
      durationUs(100, 60_000_000),
      10_000,
      "How long a call waits for the store; less if the caller's own deadline is nearer.",
    ),
    storeQueueMax: setting(
      "STORE_QUEUE_MAX",
      wholeNumber(1, 1_000_000),
      16_384,
      "Most takes (one per limit of a call) under way to the store; further ones count as a store failure at once.",
    ),
    breakerWindowMs: setting(
      "BREAKER_WINDOW",
      durationMs(100, 600_000),
      1_000,
      "Stretch of time over which the breaker counts failures.",
    ),
    breakerCallsMin: setting(
      "BREAKER_CALLS_MIN",
      wholeNumber(1, 1_000_000),
      20,
      "Fewest store calls in the window before the breaker may open.",
    ),
    breakerFailureRatio: setting(
      "BREAKER_FAILURE_RATIO",
      decimalNumber(0.01, 1),
      0.5,
      "Share of failed store calls in the window that opens the breaker.",
    ),
    breakerProbeIntervalMs: setting(
      "BREAKER_PROBE_INTERVAL",
      durationMs(10, 600_000),
      250,
      "How long the open breaker waits before one store call probes whether the store is back.",
    ),
    expirationJitterSecondsMax: setting(
      "EXPIRATION_JITTER_MAX_SECONDS",
      wholeNumber(0, 86_400),
      300,
      "Counters of COMPATIBILITY_MODE live in Redis for their window and up to this many seconds more. Headgate's own buckets live exactly as long as they mean something.",
    ),
    localCacheBytes: setting(
      "LOCAL_CACHE_SIZE_IN_BYTES",
      wholeNumber(0, 17_179_869_184),
      0,
      "Under COMPATIBILITY_MODE: room for counters that are over their limit, which are then refused without the store until their window ends. 0 is none; less than 524288 counts as that.",
    ),
    cacheKeyPrefix: setting("CACHE_KEY_PREFIX", KEY_PREFIX, "", "Put before every bucket key in the store."),
    redisUrl: optional(
      "REDIS_URL",
      TEXT,
      "Redis server: `host:port`, the path of a socket, or a URL (`redis://`, `rediss://`, `unix://`) that may hold user, password and database.",
      { secret: true },
    ),
    redisType: setting(
      "REDIS_TYPE",
      oneOf(["single"]),
      "single",
      "Kind of Redis set-up. Cluster and Sentinel are not supported yet.",
    ),
    redisSocketType: optional("REDIS_SOCKET_TYPE", oneOf(["tcp", "unix"]), "Checked against REDIS_URL.", {
      defaultShown: "as REDIS_URL says",
    }),
    redisAuth: optional("REDIS_AUTH", TEXT, "Password of Redis, or `user:password`.", { secret: true }),
    redisAuthFile: optional(
      "REDIS_AUTH_FILE",
      PATH,
      "File that holds what REDIS_AUTH would; read again at every connect, so that passwords can change.",
      { isFile: true },
    ),
    redisTls: setting("REDIS_TLS", BOOLEAN, false, "Speaks TLS with Redis."),
    redisTlsCertFile: optional("REDIS_TLS_CLIENT_CERT", PATH, "File of the client certificate (PEM).", {
      isFile: true,
    }),
    redisTlsKeyFile: optional("REDIS_TLS_CLIENT_KEY", PATH, "File of the client certificate's key (PEM).", {
      isFile: true,
    }),
    redisTlsCaFile: optional(
      "REDIS_TLS_CACERT",
      PATH,
      "File of the certificate authority that Redis's certificate must come from (PEM).",
      {
        isFile: true,
        defaultShown: "the public authorities",
      },
    ),
    redisTlsSkipsHostName: setting(
      "REDIS_TLS_SKIP_HOSTNAME_VERIFICATION",
      BOOLEAN,
      false,
      "Accepts a certificate of Redis that names another host. Its authority is still checked.",
    ),
    redisConnectTimeoutMs: setting(
      "REDIS_TIMEOUT",
      durationMs(10, 600_000),
      2_000,
      "How long a connection to Redis may take to come about.",
    ),
  }),
  ...under("Answers", {
    compatibilityMode: setting(
      "COMPATIBILITY_MODE",
      BOOLEAN,
      false,
      "Matches, counts and answers as envoyproxy/ratelimit does, on the same counters in Redis (docs/migrating.md).",
    ),
    stopsAtOver: setting(
      "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT",
      BOOLEAN,
      false,
      "Under COMPATIBILITY_MODE: a call that exceeds a limit charges only the limits it exceeds. Otherwise a refused call pays nothing anyway.",
    ),
    shadowMode: setting("SHADOW_MODE", BOOLEAN, false, "Decides and counts, but lets every call pass."),
    quotaMode: setting(
      "QUOTA_MODE",
      BOOLEAN,
      false,
      "Refuses a call only when all of its descriptors are over their limits.",
    ),
    responseHeaders: setting(
      "RESPONSE_HEADERS",
      listOf(HEADER_DIALECTS),
      [],
      "Families of rate limit headers in every answer: `ratelimit` (RateLimit-Limit, -Remaining, -Reset), `structured` (RateLimit, RateLimit-Policy), `x-ratelimit` (X-RateLimit-*).",
    ),
    limitHeadersEnabled: setting(
      "LIMIT_RESPONSE_HEADERS_ENABLED",
      BOOLEAN,
      false,
      "The same as `ratelimit` in RESPONSE_HEADERS.",
    ),
    limitHeader: setting(
      "LIMIT_LIMIT_HEADER",
      HEADER_NAME,
      "RateLimit-Limit",
      "Name of the `ratelimit` family's header for the limit.",
    ),
    remainingHeader: setting(
      "LIMIT_REMAINING_HEADER",
      HEADER_NAME,
      "RateLimit-Remaining",
      "Name of the one for what remains.",
    ),
    resetHeader: setting(
      "LIMIT_RESET_HEADER",
      HEADER_NAME,
      "RateLimit-Reset",
      "Name of the one for the seconds until reset.",
    ),
    retryAfterJitter: setting(
      "RETRY_AFTER_JITTER",
      decimalNumber(0, 0.5),
      0,
      "Largest share of the wait that is added to Retry-After, always the same for one client, where a rule does not say.",
    ),
    responseDynamicMetadata: optional(
      "RESPONSE_DYNAMIC_METADATA",
      BOOLEAN,
      "`true` sends dynamic metadata with every answer, `false` with none.",
      { defaultShown: "with refusals only" },
    ),
  }),
  ...under("Telemetry", {
    logLevel: setting(
      "LOG_LEVEL",
      oneOf(LOG_LEVELS, { panic: "fatal", warning: "warn" }),
      "info",
      "Least level that is logged (`panic` and `warning` are understood too).",
    ),
    logFormat: setting("LOG_FORMAT", oneOf(["json", "text"]), "json", "One JSON object per line, or lines for people."),
    prometheusPath: setting("PROMETHEUS_PATH", URL_PATH, "/metrics", "Path of the metrics on the HTTP port."),
    usesStatsd: setting("USE_STATSD", BOOLEAN, false, "Sends counters to a statsd server too."),
    usesDogStatsd: setting(
      "USE_DOG_STATSD",
      BOOLEAN,
      false,
      "The same in DogStatsD's dialect, with EXTRA_TAGS as tags.",
    ),
    disablesStats: setting("DISABLE_STATS", BOOLEAN, false, "Sends nothing to statsd, whatever else is set."),
    statsdHost: setting("STATSD_HOST", HOST_NAME, "localhost", "Where the statsd server is."),
    statsdPort: setting("STATSD_PORT", PORT, 8125, "Its port."),
    statsdProtocol: setting("STATSD_PROTOCOL", oneOf(["tcp", "udp"]), "tcp", "How counters travel to it."),
    statsFlushIntervalMs: setting(
      "STATS_FLUSH_INTERVAL",
      durationMs(10, 3_600_000),
      10_000,
      "How often they are sent.",
    ),
    extraTags: setting("EXTRA_TAGS", TAGS, new Map(), "Tags on all counters sent to statsd: `key:value,key2:value2`."),
    metricValuesMax: setting(
      "METRIC_VALUES_MAX",
      wholeNumber(0, 10_000),
      200,
      "Most values of callers that become metric labels, per rule; further ones count under `other`.",
    ),
    nearLimitRatio: setting(
      "NEAR_LIMIT_RATIO",
      decimalNumber(0, 1),
      0.8,
      "Share of a limit from which hits count as near it.",
    ),
  }),
} as const;

/** Values of the table's settings by field, before those that depend on each other are settled. */
export type TableValues = {
  readonly [Field in keyof typeof SETTINGS]: (typeof SETTINGS)[Field] extends Setting<infer T, infer D> ? T | D : never;
};
