// Settings of traces: those of envoyproxy/ratelimit and OpenTelemetry's own. A platform may set OTEL_* for every process, so any text
// is accepted here; trace-settings.ts checks it if traces are asked for.

import { optional, setting, under } from "./setting.ts";
import { BOOLEAN, decimalNumber, oneOf, TEXT, wholeNumber } from "./value-types.ts";

const DAY_MS = 86_400_000;
const WINS = "As the variable without TRACES in its name, for traces only. Takes precedence.";

export const TRACES_SETTINGS = under("Traces", {
  tracingEnabled: optional(
    "TRACING_ENABLED",
    BOOLEAN,
    "Makes a span of every call and sends it by OTLP (docs/operations.md). Needs the packages of OpenTelemetry, which are installed separately.",
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
    "Protocol to the collector. `http` is `http/protobuf` of OTEL_EXPORTER_OTLP_PROTOCOL.",
  ),
  tracingSamplingRate: setting(
    "TRACING_SAMPLING_RATE",
    decimalNumber(0, 1),
    1,
    "Share of calls that have a span, if their caller is not traced. If the caller is traced, its span decides.",
  ),
  otelDisabled: optional("OTEL_SDK_DISABLED", TEXT, "`true` makes no spans, whatever else is set."),
  otelExporter: optional(
    "OTEL_TRACES_EXPORTER",
    TEXT,
    "`otlp` turns traces on, as TRACING_ENABLED does; `none` turns them off. TRACING_ENABLED takes precedence.",
  ),
  otelServiceName: optional(
    "OTEL_SERVICE_NAME",
    TEXT,
    "`service.name` of the spans. Takes precedence over all other variables that give it.",
  ),
  otelResource: optional(
    "OTEL_RESOURCE_ATTRIBUTES",
    TEXT,
    "Attributes of every span's resource, as `key=value,key2=value2` with `%2C` for a comma. They take precedence over TRACING_SERVICE_*.",
  ),
  otelSampler: optional(
    "OTEL_TRACES_SAMPLER",
    TEXT,
    "`always_on`, `always_off`, `traceidratio`, or one of these after `parentbased_`. Takes precedence over TRACING_SAMPLING_RATE.",
    { defaultShown: "`parentbased_traceidratio` with TRACING_SAMPLING_RATE" },
  ),
  otelSamplerArg: optional("OTEL_TRACES_SAMPLER_ARG", TEXT, "The share of `traceidratio`, from 0 to 1.", {
    defaultShown: "`1`",
  }),
  otlpProtocol: optional("OTEL_EXPORTER_OTLP_PROTOCOL", TEXT, "Protocol to the collector: `http/protobuf` or `grpc`.", {
    defaultShown: "that of TRACING_EXPORTER_PROTOCOL",
  }),
  otlpTracesProtocol: optional("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", TEXT, WINS),
  otlpEndpoint: optional(
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    TEXT,
    "URL of the collector, without a password. With `http/protobuf`, spans are sent to `/v1/traces` below this URL.",
    { secret: true, defaultShown: "`http://localhost:4318`, with `grpc` `http://localhost:4317`" },
  ),
  otlpTracesEndpoint: optional(
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    TEXT,
    "URL that traces are sent to, used unchanged. Takes precedence.",
    { secret: true },
  ),
  otlpHeaders: optional(
    "OTEL_EXPORTER_OTLP_HEADERS",
    TEXT,
    "Headers that are sent with spans, as `name=value,name2=value2` with `%2C` for a comma.",
    { secret: true },
  ),
  otlpTracesHeaders: optional(
    "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
    TEXT,
    "Further headers for traces only. They take precedence.",
    {
      secret: true,
    },
  ),
  otlpCaFile: optional(
    "OTEL_EXPORTER_OTLP_CERTIFICATE",
    TEXT,
    "File of the certificate authorities for the collector's certificate (PEM).",
    { defaultShown: "those of Node.js" },
  ),
  otlpTracesCaFile: optional("OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", TEXT, WINS),
  otlpCertFile: optional(
    "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE",
    TEXT,
    "File of the client certificate for the collector (PEM).",
  ),
  otlpTracesCertFile: optional("OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE", TEXT, WINS),
  otlpKeyFile: optional("OTEL_EXPORTER_OTLP_CLIENT_KEY", TEXT, "File of the client certificate's key (PEM)."),
  otlpTracesKeyFile: optional("OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY", TEXT, WINS),
  spansMax: setting(
    "OTEL_BSP_MAX_QUEUE_SIZE",
    wholeNumber(1, 1_000_000),
    2_048,
    "Most spans that wait for the collector. Further spans are dropped and counted (`headgate_spans_total`).",
  ),
  spanBatchMax: setting(
    "OTEL_BSP_MAX_EXPORT_BATCH_SIZE",
    wholeNumber(1, 100_000),
    64,
    "Most spans that are sent together. Packing them delays calls: 64 spans by a millisecond, OpenTelemetry's default of 512 by ten.",
  ),
  spanDelayMs: setting(
    "OTEL_BSP_SCHEDULE_DELAY",
    wholeNumber(1, DAY_MS),
    5_000,
    "How long a span waits for others that are sent with it, in milliseconds.",
  ),
  spanExportMs: setting(
    "OTEL_BSP_EXPORT_TIMEOUT",
    wholeNumber(1, DAY_MS),
    30_000,
    "How long sending a batch may take, in milliseconds. A batch that takes longer is lost. OTEL_EXPORTER_OTLP_TIMEOUT (10000) bounds one request.",
  ),
});
