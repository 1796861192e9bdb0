// Warns of variables that are not read: envoyproxy/ratelimit's without an equivalent here, former settings, and names
// similar to a setting's.

import { nearestName } from "../base/near-name.ts";

/** A variable that is not read. */
interface ForeignVariable {
  /** What to use or to know instead, as the end of a sentence. */
  readonly note: string;
  /** Values, in lower case, that need no warning: Headgate behaves like that anyway. */
  readonly harmless: readonly string[];
  /** True: other values stop the start, because the process would do less than was asked for. */
  readonly isRefused: boolean;
}

const OFF: readonly string[] = ["false", "f", "0"];
const ON: readonly string[] = ["true", "t", "1"];

const MEMCACHE_NOTE = "stores are memory, redis and postgres; BACKEND_TYPE=memcache is rejected";

/** The other service's variables that have no equivalent here, by name. */
export const FOREIGN: ReadonlyMap<string, ForeignVariable> = new Map([
  ...named("USE_DOG_STATSD_MOGRIFIERS", "names are sent unchanged; relabel them at the server"),
  ...named("PROMETHEUS_MAPPER_YAML", "names and labels are fixed (docs/metrics.md); relabel them when scraping"),
  ...named("PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS", "times are in seconds", OFF),
  ...named(
    "REDIS_POOL_SIZE REDIS_POOL_ON_EMPTY_BEHAVIOR REDIS_PERSECOND_POOL_SIZE REDIS_PERSECOND_POOL_ON_EMPTY_BEHAVIOR",
    "one connection per server carries all calls concurrently",
  ),
  ...named(
    "REDIS_PIPELINE_WINDOW REDIS_PIPELINE_LIMIT REDIS_CLUSTER_PIPELINE_PARALLELISM REDIS_PERSECOND_PIPELINE_WINDOW" +
      " REDIS_PERSECOND_PIPELINE_LIMIT REDIS_PERSECOND_CLUSTER_PIPELINE_PARALLELISM",
    "calls are always batched, and sent to all nodes at the same time",
  ),
  ...named("REDIS_CLOSE_CONNECTION_ON_READONLY_ERROR", "a read-only server is always left for the primary"),
  ...named("LIMIT_REQUEST_HEADERS_ENABLED", "limits are shown in headers of responses, not of requests", OFF),
  ...named("REDIS_SOCKET_TYPE REDIS_PERSECOND_SOCKET_TYPE", "the URL says it: a path is a Unix socket", [
    "tcp",
    "unix",
  ]),
  ...named("RUNTIME_WATCH_ROOT", "swapped links and edited files are both noticed", [...ON, ...OFF]),
  ...named("XDS_CLIENT_BACKOFF_RANDOM_FACTOR", "pauses double", ["0.5"]),
  ...named("REDIS_HEALTH_CHECK_ACTIVE_CONNECTION", "health always reports the state of Redis"),
  ...named(
    "REDIS_STARTUP_INITIAL_INTERVAL REDIS_STARTUP_MAX_INTERVAL REDIS_STARTUP_MAX_ELAPSED_TIME",
    "the process waits for Redis indefinitely",
  ),
  ...named(
    "MEMCACHE_HOST_PORT MEMCACHE_SRV MEMCACHE_SRV_REFRESH MEMCACHE_MAX_IDLE_CONNS MEMCACHE_TLS_CLIENT_CERT" +
      " MEMCACHE_TLS_CLIENT_KEY MEMCACHE_TLS_CACERT",
    MEMCACHE_NOTE,
  ),
  ...named("MEMCACHE_TLS MEMCACHE_TLS_SKIP_HOSTNAME_VERIFICATION", MEMCACHE_NOTE, OFF),
]);

/** Former settings, and one that people expect, by name. */
const FORMER: ReadonlyMap<string, ForeignVariable> = new Map([
  ...named("ENABLE_NEGATIVE_HITS", "hits with is_negative_hits are always given back", ON),
  ...named(
    "BREAKER_WINDOW BREAKER_CALLS_MIN BREAKER_FAILURE_RATIO BREAKER_PROBE_INTERVAL",
    "the breaker opens once half of at least 20 store calls within a second failed, and probes the store every 250 ms",
  ),
  ...["PROTOCOL", "ENDPOINT", "HEADERS", "CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY"].flatMap((name) =>
    named(`OTEL_EXPORTER_OTLP_TRACES_${name}`, `use OTEL_EXPORTER_OTLP_${name}: only traces are sent`),
  ),
  ...named("OTEL_BSP_MAX_QUEUE_SIZE", "at most 2048 spans wait", ["2048"]),
  ...named("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "a batch has at most 64 spans", ["64"]),
  ...named("OTEL_BSP_SCHEDULE_DELAY", "a span waits at most 500 ms for its batch to fill", ["5000"]),
  ...named("OTEL_BSP_EXPORT_TIMEOUT", "a batch is lost after 10 s", ["30000"]),
  ...named(
    "OTEL_TRACES_SAMPLER",
    "a traced caller decides, and OTEL_TRACES_SAMPLER_ARG is the share of other calls that get a span",
    ["parentbased_traceidratio", "parentbased_always_on"],
  ),
  ...named("OTEL_SDK_DISABLED", "use TRACING_ENABLED=false", OFF),
  ...named("DECISION_LOG_SAMPLE", "DECISION_LOG_RATE bounds the lines per limit", ["1"]),
  ...named(
    "DECISION_LOG_FILE_BYTES_MAX DECISION_LOG_FILES",
    "let logrotate rotate DECISION_LOG_FILE (docs/simulate.md)",
  ),
  ...named("POSTGRES_UNLOGGED", "tables stay as they are (docs/postgresql.md has the SQL)"),
  ...named("POSTGRES_TIMEOUT", "connecting to PostgreSQL may take 2 s", ["2s"]),
  ...named("REDIS_SENTINEL_TLS", "sentinels use TLS as Redis does (REDIS_TLS, or a rediss URL)", [], true),
  ...named("STORE_QUEUE_MAX", "at most 16384 takes wait for the store", ["16384"]),
  ...named("SLIDING_LOG_BYTES_MAX", "BUCKETS_MAX bounds sliding logs, too: 134 bytes per bucket"),
  ...named("XDS_RESOURCES_MAX", "a set has at most 65536 resources", ["65536"]),
  ...named("REQUEST_BYTES_MAX", "a request has at most 4194304 bytes", ["4194304"]),
  ...named("GRPC_REFLECTION", "reflection is answered unless COMPATIBILITY_MODE is true"),
  ...named("RULES_POLL_INTERVAL", "rule files are checked every 2s", ["2s"]),
  ...named(
    "WORKERS",
    "a process decides on one thread; for more cores start several processes on one store, each on its own ports, as endpoints of one Envoy cluster (docs/cores.md)",
    ["1", "auto"],
    true,
  ),
]);

/** Former settings that may hold secrets. OpenTelemetry's exporter would read them, too. */
export const FORMER_SECRETS: readonly string[] = [
  "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
  "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
];

/**
 * Prefixes that only settings of this service have. GRPC_ alone is not one: gRPC libraries read GRPC_TRACE and others.
 */
const OUR_PREFIX = /^(?:RULES|STORE|LIMIT|RUNTIME|REDIS|SHUTDOWN|RESPONSE|GRPC_MAX)_/;

/**
 * Variables that Kubernetes sets in every container for a Service: REDIS_SERVICE_HOST, REDIS_PORT_6379_TCP and so on.
 */
const SERVICE_LINK = /_(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT|PORT_\d+_(?:TCP|UDP|SCTP)(?:_\w+)?)$/;

/** Of these only _PORT can be meant for a setting: Kubernetes sets it to a URL (tcp://10.0.0.1:6379). */
function isServiceLink(name: string, text: string): boolean {
  return SERVICE_LINK.test(name) && (!/(?<!_SERVICE)_PORT$/.test(name) || text.includes("://"));
}

/** Settings by the names that other programs, or settings next to them, lead one to expect. */
const EXPECTED_NAMES: Readonly<Record<string, string>> = {
  HTTP_PORT: "PORT",
  HTTP_HOST: "HOST",
  REDIS_HOST: "REDIS_URL",
  REDIS_PASSWORD: "REDIS_AUTH",
  LIMIT_RESPONSE_HEADERS: "LIMIT_RESPONSE_HEADERS_ENABLED",
};

/** Shorter variables are not compared, because too many short names are near each other by chance. */
const NEAR_NAME_LENGTH_MIN = 6;

/** Adds a line to `warnings` or `mistakes` for each such variable in `env`. `known` are the names of all settings. */
export function findForeignNames(
  env: Readonly<Record<string, string | undefined>>,
  known: readonly string[],
  mistakes: string[],
  warnings: string[],
): void {
  for (const [name, text] of Object.entries(env)) {
    if (text === undefined || known.includes(name)) continue;
    const foreign = FOREIGN.get(name) ?? FORMER.get(name);
    if (foreign === undefined) {
      const warning = lookAlike(name, text, known);
      if (warning !== undefined) warnings.push(warning);
      continue;
    }
    const value = text.trim();
    if (value === "" || foreign.harmless.includes(value.toLowerCase())) continue;
    (foreign.isRefused ? mistakes : warnings).push(`${name}: not supported; ${foreign.note}`);
  }
}

function lookAlike(name: string, text: string, known: readonly string[]): string | undefined {
  // OpenTelemetry's own libraries read more OTEL_ variables than the settings; the other commands read HEADGATE_SERVER.
  if (isServiceLink(name, text) || name.startsWith("OTEL_") || name === "HEADGATE_SERVER") return undefined;
  const bare = name.replace(/^HEADGATE_/, "");
  if (bare !== name && (known.includes(bare) || FOREIGN.has(bare))) {
    return `${name}: no such setting; settings have no prefix, did you mean ${bare}?`;
  }
  if (name.length < NEAR_NAME_LENGTH_MIN || name !== name.toUpperCase()) return undefined;
  const near = EXPECTED_NAMES[name] ?? nearestName(name, known);
  if (near !== undefined) return `${name}: no such setting; did you mean ${near}?`;
  const isOurs = bare !== name || OUR_PREFIX.test(name);
  return isOurs ? `${name}: no such setting` : undefined;
}

function named(
  names: string,
  note: string,
  harmless: readonly string[] = [],
  isRefused = false,
): [string, ForeignVariable][] {
  return names.split(" ").map((name) => [name, { note, harmless, isRefused }]);
}
