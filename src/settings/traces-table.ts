// Settings of traces: those that envoyproxy/ratelimit has, and OpenTelemetry's own. A platform may give OTEL_* to every process,
// so any text is taken here; what can't be used counts once traces are asked for (trace-settings.ts).

import { optional, setting, under } from "./setting.ts";
import { BOOLEAN, decimalNumber, oneOf, TEXT, wholeNumber } from "./value-types.ts";

const DAY_MS = 86_400_000;
const WINS = "The same for traces alone; wins.";

export const TRACES_SETTINGS = under("Traces", {
  tracingEnabled: optional(
    "TRACING_ENABLED",
    BOOLEAN,
    "Makes a span of every call and sends it by OTLP (docs/operations.md). Needs the packages of OpenTelemetry, which are installed beside Headgate.",
    { defaultShown: "`true` if OTEL_TRACES_EXPORTER is `otlp`" },
  ),
  tracingServiceName: setting("TRACING_SERVICE_NAME", TEXT, "headgate", "`service.name` of the spans."),
  tracingNamespace: optional("TRACING_SERVICE_NAMESPACE", TEXT, "`service.namespace` of the spans."),
  tracingInstanceId: optional("TRACING_SERVICE_INSTANCE_ID", TEXT, "`service.instance.id` of the spans.", {
    defaultShown: "a random UUID for each process",
  }),
  tracingProtocol: setting(
    "TRACING_EXPORTER_PROTOCOL",
    oneOf(["http", "grpc"]),
    "http",
    "How spans travel: `http` is `http/protobuf` below.",
  ),
  tracingSamplingRate: setting(
    "TRACING_SAMPLING_RATE",
    decimalNumber(0, 1),
    1,
    "Share of the calls without a traced caller that have a span. Where the caller is traced, its span says whether.",
  ),
  otelDisabled: optional("OTEL_SDK_DISABLED", TEXT, "`true` makes no spans, whatever else is set."),
  otelExporter: optional(
    "OTEL_TRACES_EXPORTER",
    TEXT,
    "`otlp` asks for traces as TRACING_ENABLED does, `none` for none; TRACING_ENABLED wins.",
  ),
  otelServiceName: optional("OTEL_SERVICE_NAME", TEXT, "`service.name`; wins over all others."),
  otelResource: optional(
    "OTEL_RESOURCE_ATTRIBUTES",
    TEXT,
    "Attributes of every span's resource, as `key=value,key2=value2` with `%2C` for a comma. They win over TRACING_SERVICE_*.",
  ),
  otelSampler: optional(
    "OTEL_TRACES_SAMPLER",
    TEXT,
    "`always_on`, `always_off`, `traceidratio`, or one of these behind `parentbased_`. Wins over TRACING_SAMPLING_RATE.",
    { defaultShown: "`parentbased_traceidratio` with TRACING_SAMPLING_RATE" },
  ),
  otelSamplerArg: optional("OTEL_TRACES_SAMPLER_ARG", TEXT, "The share of `traceidratio`, from 0 to 1.", {
    defaultShown: "`1`",
  }),
  otlpProtocol: optional("OTEL_EXPORTER_OTLP_PROTOCOL", TEXT, "`http/protobuf` or `grpc`.", {
    defaultShown: "that of TRACING_EXPORTER_PROTOCOL",
  }),
  otlpTracesProtocol: optional("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", TEXT, WINS),
  otlpEndpoint: optional(
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    TEXT,
    "URL of the collector, without a password; with `http/protobuf` spans go to `/v1/traces` below it.",
    { secret: true, defaultShown: "`http://localhost:4318`, with `grpc` `http://localhost:4317`" },
  ),
  otlpTracesEndpoint: optional(
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    TEXT,
    "URL that traces go to, taken as it is; wins.",
    { secret: true },
  ),
  otlpHeaders: optional(
    "OTEL_EXPORTER_OTLP_HEADERS",
    TEXT,
    "Headers that are sent with spans, as `name=value,name2=value2` with `%2C` for a comma.",
    { secret: true },
  ),
  otlpTracesHeaders: optional("OTEL_EXPORTER_OTLP_TRACES_HEADERS", TEXT, "Further ones for traces alone; they win.", {
    secret: true,
  }),
  otlpCaFile: optional(
    "OTEL_EXPORTER_OTLP_CERTIFICATE",
    TEXT,
    "File of the authorities (PEM) that the collector's certificate must come from.",
    { defaultShown: "those of Node.js" },
  ),
  otlpTracesCaFile: optional("OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", TEXT, WINS),
  otlpCertFile: optional(
    "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE",
    TEXT,
    "File of the certificate (PEM) that the collector is shown.",
  ),
  otlpTracesCertFile: optional("OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE", TEXT, WINS),
  otlpKeyFile: optional("OTEL_EXPORTER_OTLP_CLIENT_KEY", TEXT, "File of its key (PEM)."),
  otlpTracesKeyFile: optional("OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY", TEXT, WINS),
  spansMax: setting(
    "OTEL_BSP_MAX_QUEUE_SIZE",
    wholeNumber(1, 1_000_000),
    2_048,
    "Spans that wait for the collector at most; further ones are dropped and counted (`headgate_spans_total`).",
  ),
  spanBatchMax: setting(
    "OTEL_BSP_MAX_EXPORT_BATCH_SIZE",
    wholeNumber(1, 100_000),
    64,
    "Spans that are sent at once at most. Packing them holds up calls: 64 for a millisecond, OpenTelemetry's own default of 512 for ten.",
  ),
  spanDelayMs: setting(
    "OTEL_BSP_SCHEDULE_DELAY",
    wholeNumber(1, DAY_MS),
    5_000,
    "How long a span waits for others to be sent with, in milliseconds.",
  ),
  spanExportMs: setting(
    "OTEL_BSP_EXPORT_TIMEOUT",
    wholeNumber(1, DAY_MS),
    30_000,
    "How long a batch may take in all, in milliseconds; then it is lost. OTEL_EXPORTER_OTLP_TIMEOUT (10000) bounds one request.",
  ),
});
