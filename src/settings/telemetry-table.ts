// Settings of logs, metrics and traces; for traces those of envoyproxy/ratelimit and OpenTelemetry's own.

import { optional, setting } from "./setting.ts";
import {
  ATTRIBUTES,
  BOOLEAN,
  decimalNumber,
  durationMs,
  FILE,
  HOST_NAME,
  LISTEN_ADDRESS,
  OTLP_HEADERS,
  OTLP_URL,
  oneOf,
  PATH,
  PORT,
  type SettingType,
  TAGS,
  TEXT,
  URL_PATH,
  wholeNumber,
} from "./value-types.ts";

const LOG_LEVELS = ["fatal", "error", "warn", "info", "debug", "trace", "silent"] as const;

export const TELEMETRY_SETTINGS = {
  logLevel: setting("LOG_LEVEL", oneOf(LOG_LEVELS, { panic: "fatal", warning: "warn" }), "info").means(
    "Lowest level that is logged; `panic` and `warning` work too.",
  ),
  logFormat: optional("LOG_FORMAT", oneOf(["json", "text"])).means(
    "One JSON object per line, or text for people.",
    "`text` on a terminal, else `json`",
  ),
  decisionLog: setting("DECISION_LOG", oneOf(["off", "refusals", "all"]), "off").means(
    "Logs refusals or all decisions, for `headgate simulate` (docs/simulate.md).",
  ),
  decisionLogFile: optional("DECISION_LOG_FILE", PATH).means(
    "File, pipe or device for these lines (`/dev/stdout`). SIGHUP opens a file again, for logrotate (docs/simulate.md).",
    "the process's log",
  ),
  decisionLogRate: setting("DECISION_LOG_RATE", wholeNumber(1, 1_000_000), 10).means(
    "Maximum lines per second for each limit, and in a burst. The next line says how many were dropped.",
  ),
  prometheusPath: setting("PROMETHEUS_PATH", URL_PATH, "/metrics").means("Path of the metrics."),
  prometheusAddress: optional("PROMETHEUS_ADDR", LISTEN_ADDRESS).means(
    "Serves the metrics on this address too. If taken, the process runs without it.",
    "none, under COMPATIBILITY_MODE with USE_PROMETHEUS=true `:9090`",
  ),
  usesPrometheus: optional("USE_PROMETHEUS", BOOLEAN).means(
    "`false` ignores PROMETHEUS_ADDR.",
    "`true` if PROMETHEUS_ADDR is set",
  ),
  usesStatsd: optional("USE_STATSD", BOOLEAN).means(
    "Sends counters to a statsd server.",
    "`false`, under COMPATIBILITY_MODE `true` if STATSD_HOST is set",
  ),
  usesDogStatsd: setting("USE_DOG_STATSD", BOOLEAN, false).means(
    "Sends counters as DogStatsD, with EXTRA_TAGS as tags.",
  ),
  disablesStats: setting("DISABLE_STATS", BOOLEAN, false).means("Sends nothing to statsd, whatever else is set."),
  statsdHost: setting("STATSD_HOST", HOST_NAME, "localhost").means("Host of the statsd server."),
  statsdPort: setting("STATSD_PORT", PORT, 8125).means("Its port."),
  statsdProtocol: setting("STATSD_PROTOCOL", oneOf(["tcp", "udp"]), "tcp").means("Its protocol."),
  statsFlushIntervalMs: setting("STATS_FLUSH_INTERVAL", durationMs(10, 3_600_000), 10_000).means(
    "How often counters are sent to statsd.",
  ),
  extraTags: setting("EXTRA_TAGS", TAGS, new Map()).means("Tags of all statsd counters: `key:value,key2:value2`."),
  metricValuesMax: setting("METRIC_VALUES_MAX", wholeNumber(0, 10_000), 200).means(
    "Maximum caller-supplied values used as metric labels, per rule; at most 10,000. More count as `other`.",
  ),
  metricRulesMax: setting("METRIC_RULES_MAX", wholeNumber(1, 1_000_000), 2_000).means(
    "Maximum rules, and callers' values, with their own metric series per domain: six each, up to 14 with holds. Later ones are summed as `(other rules)`.",
  ),
  topKeysMax: setting("TOP_KEYS", wholeNumber(0, 2_000), 500).means(
    "How many keys `/top` tracks over all rules, separately for passed and refused hits (docs/inspect.md). 0: none.",
  ),
  topKeysShown: setting("TOP_KEYS_METRICS", wholeNumber(0, 100), 0).means(
    "How many of the most refused keys become series of `headgate_top_refused`. Keys name callers, except under `hash_values`; anyone who reaches the port can read them.",
  ),
  nearLimitRatio: setting("NEAR_LIMIT_RATIO", decimalNumber(0, 1), 0.8).means(
    "Share of a limit above which hits count as near the limit.",
  ),
};

/** OpenTelemetry names an exporter where the reference has a switch. */
const TRACING: SettingType<boolean> = {
  ...BOOLEAN,
  label: "boolean, otlp, none",
  expects: "true or otlp, false or none",
  parse: (text) => BOOLEAN.parse({ otlp: "true", none: "false" }[text] ?? text),
};

export const TRACES_SETTINGS = {
  tracingEnabled: optional(["TRACING_ENABLED", "OTEL_TRACES_EXPORTER"], TRACING).means(
    "Sends a span of every call by OTLP (docs/inspect.md). Needs OpenTelemetry's packages, installed separately.",
    "`false`",
  ),
  tracingServiceName: optional(["OTEL_SERVICE_NAME", "TRACING_SERVICE_NAME"], TEXT).means(
    "Spans' `service.name`.",
    "that of OTEL_RESOURCE_ATTRIBUTES, else `headgate`",
  ),
  tracingNamespace: optional("TRACING_SERVICE_NAMESPACE", TEXT).means("Spans' `service.namespace`."),
  tracingInstanceId: optional("TRACING_SERVICE_INSTANCE_ID", TEXT).means(
    "Spans' `service.instance.id`.",
    "a random UUID per process",
  ),
  tracingProtocol: setting(
    ["OTEL_EXPORTER_OTLP_PROTOCOL", "TRACING_EXPORTER_PROTOCOL"],
    oneOf(["http/protobuf", "grpc"], { http: "http/protobuf" }),
    "http/protobuf",
  ).means("Protocol to the collector; `http` works too."),
  tracingSamplingRate: setting(["OTEL_TRACES_SAMPLER_ARG", "TRACING_SAMPLING_RATE"], decimalNumber(0, 1), 1).means(
    "Share of untraced calls that get a span; a traced caller's span decides.",
  ),
  otelResource: optional("OTEL_RESOURCE_ATTRIBUTES", ATTRIBUTES).means(
    "Spans' resource attributes: `key=value,key2=value2` with `%2C` for a comma. Override TRACING_SERVICE_NAMESPACE and TRACING_SERVICE_INSTANCE_ID.",
  ),
  otlpEndpoint: optional("OTEL_EXPORTER_OTLP_ENDPOINT", OTLP_URL).means(
    "URL of the collector, without a password. With `http/protobuf`, `/v1/traces` is appended.",
    "`http://localhost:4318`, with `grpc` `http://localhost:4317`",
  ),
  otlpHeaders: optional("OTEL_EXPORTER_OTLP_HEADERS", OTLP_HEADERS).means(
    "Headers sent with spans: `name=value,name2=value2` with `%2C` for a comma.",
  ),
  otlpCaFile: optional("OTEL_EXPORTER_OTLP_CERTIFICATE", FILE).means(
    "CA of the collector's certificate.",
    "those of Node.js",
  ),
  otlpCertFile: optional("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", FILE).means(
    "Client certificate for the collector, and its key.",
  ),
  otlpKeyFile: optional("OTEL_EXPORTER_OTLP_CLIENT_KEY", FILE).means(
    "Client certificate for the collector, and its key.",
  ),
};
