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
  TAGS,
  TEXT,
  URL_PATH,
  wholeNumber,
} from "./value-types.ts";

const DAY_MS = 86_400_000;
const WINS = "Same as the variable without TRACES in its name, for traces only; takes precedence.";
const LOG_LEVELS = ["fatal", "error", "warn", "info", "debug", "trace", "silent"] as const;

export const TELEMETRY_SETTINGS = {
  logLevel: setting("LOG_LEVEL", oneOf(LOG_LEVELS, { panic: "fatal", warning: "warn" }), "info").means(
    "Lowest level that is logged (`panic` and `warning` are accepted too).",
  ),
  logFormat: optional("LOG_FORMAT", oneOf(["json", "text"])).means(
    "One JSON object per line, or lines for people.",
    "`text` if standard output is a terminal, otherwise `json`",
  ),
  decisionLog: setting("DECISION_LOG", oneOf(["off", "refusals", "all"]), "off").means(
    "Writes each refusal, or each decision, in the form that `headgate simulate` reads (docs/simulate.md).",
  ),
  decisionLogFile: optional("DECISION_LOG_FILE", PATH).means(
    "File for these decisions. Each of several workers adds its number, such as `decisions.2.jsonl`.",
    "the process's log",
  ),
  decisionLogShare: setting("DECISION_LOG_SAMPLE", decimalNumber(0, 1), 1).means(
    "Share of these decisions that is written, chosen at random.",
  ),
  decisionLogRate: setting("DECISION_LOG_RATE", wholeNumber(1, 1_000_000), 10).means(
    "Maximum lines per second for each limit, and in a burst. The next line says how many were dropped.",
  ),
  decisionLogBytesMax: setting("DECISION_LOG_FILE_BYTES_MAX", wholeNumber(65_536, 1_099_511_627_776), 67_108_864).means(
    "Maximum bytes of a file. A full file is renamed to `.1`, the file `.1` to `.2`, and so on.",
  ),
  decisionLogFilesMax: setting("DECISION_LOG_FILES", wholeNumber(1, 1_000), 4).means(
    "Files that are kept, including the current one. The oldest is deleted.",
  ),
  prometheusPath: setting("PROMETHEUS_PATH", URL_PATH, "/metrics").means("Path of the metrics on the HTTP port."),
  prometheusAddress: optional("PROMETHEUS_ADDR", LISTEN_ADDRESS).means(
    "Serves the metrics on this address too. If the address is taken, the process logs that and runs without it.",
    "none, under COMPATIBILITY_MODE with USE_PROMETHEUS=true `:9090`",
  ),
  usesPrometheus: optional("USE_PROMETHEUS", BOOLEAN).means(
    "`false` ignores PROMETHEUS_ADDR.",
    "`true` if PROMETHEUS_ADDR is set",
  ),
  usesStatsd: optional("USE_STATSD", BOOLEAN).means(
    "Sends counters to a statsd server too.",
    "`false`, under COMPATIBILITY_MODE `true` if STATSD_HOST is set",
  ),
  usesDogStatsd: setting("USE_DOG_STATSD", BOOLEAN, false).means(
    "Sends counters in DogStatsD's dialect, with EXTRA_TAGS as tags.",
  ),
  disablesStats: setting("DISABLE_STATS", BOOLEAN, false).means("Sends nothing to statsd, whatever else is set."),
  statsdHost: setting("STATSD_HOST", HOST_NAME, "localhost").means("Host of the statsd server."),
  statsdPort: setting("STATSD_PORT", PORT, 8125).means("Its port."),
  statsdProtocol: setting("STATSD_PROTOCOL", oneOf(["tcp", "udp"]), "tcp").means("Protocol to the statsd server."),
  statsFlushIntervalMs: setting("STATS_FLUSH_INTERVAL", durationMs(10, 3_600_000), 10_000).means(
    "How often counters are sent to statsd.",
  ),
  extraTags: setting("EXTRA_TAGS", TAGS, new Map()).means(
    "Tags on all counters sent to statsd: `key:value,key2:value2`.",
  ),
  metricValuesMax: setting("METRIC_VALUES_MAX", wholeNumber(0, 10_000), 200).means(
    "Maximum number of caller-supplied values used as metric labels, per rule. Further values count as `other`.",
  ),
  metricRulesMax: setting("METRIC_RULES_MAX", wholeNumber(1, 1_000_000), 2_000).means(
    "Maximum number of rules, and of callers' values, with their own series on the metrics page, per domain, in the order of their first hits. The rest are summed as `(other rules)`. Each has six series, and up to eight more with holds.",
  ),
  topKeysMax: setting("TOP_KEYS", wholeNumber(0, 2_000), 500).means(
    "How many keys `/top` and `headgate top` track over all rules, separately for passed and refused hits (docs/inspect.md). 0: none.",
  ),
  topKeysShown: setting("TOP_KEYS_METRICS", wholeNumber(0, 100), 0).means(
    "How many of the most refused keys become series of `headgate_top_refused`. Keys name callers, except under rules with `hash_values`, and anyone who reaches the port can read the metrics page.",
  ),
  nearLimitRatio: setting("NEAR_LIMIT_RATIO", decimalNumber(0, 1), 0.8).means(
    "Share of a limit above which hits count as near the limit.",
  ),
};

const SAMPLERS = [
  "always_on",
  "always_off",
  "traceidratio",
  "parentbased_always_on",
  "parentbased_always_off",
  "parentbased_traceidratio",
] as const;
const TRACE_PROTOCOLS = ["http/protobuf", "grpc"] as const;

export const TRACES_SETTINGS = {
  tracingEnabled: optional("TRACING_ENABLED", BOOLEAN).means(
    "Makes a span of every call and sends it by OTLP (docs/inspect.md). Needs the packages of OpenTelemetry, which are installed separately.",
    "`true` if OTEL_TRACES_EXPORTER is `otlp`",
  ),
  tracingServiceName: setting("TRACING_SERVICE_NAME", TEXT, "headgate").means("`service.name` of the spans."),
  tracingNamespace: optional("TRACING_SERVICE_NAMESPACE", TEXT).means("`service.namespace` of the spans."),
  tracingInstanceId: optional("TRACING_SERVICE_INSTANCE_ID", TEXT).means(
    "`service.instance.id` of the spans.",
    "a random UUID for each process",
  ),
  tracingProtocol: setting("TRACING_EXPORTER_PROTOCOL", oneOf(["http", "grpc"]), "http").means(
    "Protocol to the collector. `http` is `http/protobuf` of OTEL_EXPORTER_OTLP_PROTOCOL.",
  ),
  tracingSamplingRate: setting("TRACING_SAMPLING_RATE", decimalNumber(0, 1), 1).means(
    "Share of calls that have a span, if their caller is not traced. If the caller is traced, its span decides.",
  ),
  otelDisabled: optional("OTEL_SDK_DISABLED", TEXT).means("`true` makes no spans, whatever else is set."),
  otelExporter: optional("OTEL_TRACES_EXPORTER", TEXT).means(
    "`otlp` turns traces on, as TRACING_ENABLED does; `none` turns them off. TRACING_ENABLED takes precedence.",
  ),
  otelServiceName: optional("OTEL_SERVICE_NAME", TEXT).means(
    "`service.name` of the spans. Takes precedence over all other variables that give it.",
  ),
  otelResource: optional("OTEL_RESOURCE_ATTRIBUTES", ATTRIBUTES).means(
    "Attributes of every span's resource, as `key=value,key2=value2` with `%2C` for a comma. They take precedence over TRACING_SERVICE_*.",
  ),
  otelSampler: optional("OTEL_TRACES_SAMPLER", oneOf(SAMPLERS)).means(
    "`always_on`, `always_off`, `traceidratio`, or one of these after `parentbased_`. Takes precedence over TRACING_SAMPLING_RATE.",
    "`parentbased_traceidratio` with TRACING_SAMPLING_RATE",
  ),
  otelSamplerArg: optional("OTEL_TRACES_SAMPLER_ARG", decimalNumber(0, 1)).means(
    "The share of `traceidratio`, from 0 to 1.",
    "`1`",
  ),
  otlpProtocol: optional("OTEL_EXPORTER_OTLP_PROTOCOL", oneOf(TRACE_PROTOCOLS)).means(
    "Protocol to the collector: `http/protobuf` or `grpc`.",
    "from TRACING_EXPORTER_PROTOCOL",
  ),
  otlpTracesProtocol: optional("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", oneOf(TRACE_PROTOCOLS)).means(WINS),
  otlpEndpoint: optional("OTEL_EXPORTER_OTLP_ENDPOINT", OTLP_URL).means(
    "URL of the collector, without a password. With `http/protobuf`, spans are sent to `/v1/traces` below this URL.",
    "`http://localhost:4318`, with `grpc` `http://localhost:4317`",
  ),
  otlpTracesEndpoint: optional("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", OTLP_URL).means(
    "URL that traces are sent to, used unchanged. Takes precedence.",
  ),
  otlpHeaders: optional("OTEL_EXPORTER_OTLP_HEADERS", OTLP_HEADERS).means(
    "Headers that are sent with spans, as `name=value,name2=value2` with `%2C` for a comma.",
  ),
  otlpTracesHeaders: optional("OTEL_EXPORTER_OTLP_TRACES_HEADERS", OTLP_HEADERS).means(
    "Further headers for traces only. They take precedence.",
  ),
  otlpCaFile: optional("OTEL_EXPORTER_OTLP_CERTIFICATE", FILE).means(
    "File of the certificate authorities for the collector's certificate (PEM).",
    "those of Node.js",
  ),
  otlpTracesCaFile: optional("OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", FILE).means(WINS),
  otlpCertFile: optional("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", FILE).means(
    "File of the client certificate for the collector (PEM).",
  ),
  otlpTracesCertFile: optional("OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE", FILE).means(WINS),
  otlpKeyFile: optional("OTEL_EXPORTER_OTLP_CLIENT_KEY", FILE).means("File of the client certificate's key (PEM)."),
  otlpTracesKeyFile: optional("OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY", FILE).means(WINS),
  spansMax: setting("OTEL_BSP_MAX_QUEUE_SIZE", wholeNumber(1, 1_000_000), 2_048).means(
    "Maximum number of spans waiting for the collector. Further spans are dropped and counted (`headgate_spans_total`).",
  ),
  spanBatchMax: setting("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", wholeNumber(1, 100_000), 64).means(
    "Maximum number of spans in a batch. Packing them delays calls: 64 spans by a millisecond, OpenTelemetry's default of 512 by ten.",
  ),
  spanDelayMs: setting("OTEL_BSP_SCHEDULE_DELAY", wholeNumber(1, DAY_MS), 5_000).means(
    "How long a span waits for its batch to fill, in milliseconds.",
  ),
  spanExportMs: setting("OTEL_BSP_EXPORT_TIMEOUT", wholeNumber(1, DAY_MS), 30_000).means(
    "How long sending a batch may take, in milliseconds. A batch that takes longer is lost. OTEL_EXPORTER_OTLP_TIMEOUT (10000) bounds one request.",
  ),
};
