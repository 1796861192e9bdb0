// Combines the settings of traces: OpenTelemetry's variables override those of the reference service.

import { checkBoth, quoted } from "./mistakes.ts";
import type { TableValues } from "./table.ts";

export type TraceProtocol = NonNullable<TableValues["otlpProtocol"]>;

/** The settings of traces, complete. */
export type TraceSettings = NonNullable<ReturnType<typeof settleTraces>>;

/** Undefined unless traces are asked for. */
export function settleTraces(values: TableValues, mistakes: string[]) {
  if (!areAskedFor(values, mistakes)) return undefined;
  const certFile = values.otlpTracesCertFile ?? values.otlpCertFile;
  const keyFile = values.otlpTracesKeyFile ?? values.otlpKeyFile;
  checkBoth("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE, OTEL_EXPORTER_OTLP_CLIENT_KEY", certFile, keyFile, mistakes);
  const { otelSampler, otelSamplerArg = 1, tracingSamplingRate, otlpHeaders = [], otlpTracesHeaders = [] } = values;
  const ofReference = values.tracingProtocol === "grpc" ? "grpc" : "http/protobuf";
  const protocol = values.otlpTracesProtocol ?? values.otlpProtocol ?? ofReference;
  return Object.freeze({
    protocol,
    /** The collector's URL; with `http/protobuf` the whole URL to which spans are posted. */
    url: urlOf(values, protocol),
    /** Headers sent with spans; the values are secret. */
    headers: Object.fromEntries([...otlpHeaders, ...otlpTracesHeaders]),
    sampler: otelSampler ?? "parentbased_traceidratio",
    /** Share of traces that are recorded, 0 to 1, for the samplers that use it. */
    samplingRate: otelSampler === undefined ? tracingSamplingRate : otelSamplerArg,
    resource: resourceOf(values),
    /** Paths of PEM files for TLS towards the collector. */
    caFile: values.otlpTracesCaFile ?? values.otlpCaFile,
    certFile,
    keyFile,
  });
}

function areAskedFor({ tracingEnabled, otelExporter, otelDisabled }: TableValues, mistakes: string[]): boolean {
  if (otelDisabled?.toLowerCase() === "true" || tracingEnabled === false) return false;
  if (tracingEnabled === true || otelExporter === "otlp") return true;
  if (otelExporter !== undefined && otelExporter !== "none")
    mistakes.push(`OTEL_TRACES_EXPORTER: expected otlp or none, got ${quoted(otelExporter)}`);
  return false;
}

function urlOf({ otlpTracesEndpoint, otlpEndpoint }: TableValues, protocol: TraceProtocol): string {
  if (otlpTracesEndpoint !== undefined) return otlpTracesEndpoint;
  if (protocol === "grpc") return otlpEndpoint ?? "http://localhost:4317";
  const url = new URL(otlpEndpoint ?? "http://localhost:4318");
  url.pathname = `${url.pathname.replace(/\/$/, "")}/v1/traces`;
  return url.href;
}

/** Attributes of the resource, `service.name` among them. */
function resourceOf(values: TableValues): Readonly<Record<string, string>> {
  const { tracingServiceName, tracingNamespace, tracingInstanceId, otelServiceName, otelResource = [] } = values;
  const named = {
    "service.name": tracingServiceName,
    "service.namespace": tracingNamespace,
    "service.instance.id": tracingInstanceId,
    ...Object.fromEntries(otelResource),
    ...(otelServiceName === undefined ? {} : { "service.name": otelServiceName }),
  };
  const given = Object.entries(named).filter((entry): entry is [string, string] => entry[1] !== undefined);
  return Object.freeze(Object.fromEntries(given));
}
