// Combines the settings of traces: OpenTelemetry's variables override those of the reference service.

import { checkBoth, quoted } from "./mistakes.ts";
import type { TableValues } from "./table.ts";

export type TraceProtocol = NonNullable<TableValues["otlpProtocol"]>;

/** The settings of traces, complete. */
export interface TraceSettings {
  readonly protocol: TraceProtocol;
  /** The collector's URL; with `http/protobuf` the whole URL to which spans are posted. */
  readonly url: string;
  /** Headers sent with spans; the values are secret. */
  readonly headers: Readonly<Record<string, string>>;
  readonly sampler: NonNullable<TableValues["otelSampler"]>;
  /** Share of traces that are recorded, 0 to 1, for the samplers that use it. */
  readonly samplingRate: number;
  /** Attributes of the resource, `service.name` among them. */
  readonly resource: Readonly<Record<string, string>>;
  /** Paths of PEM files for TLS towards the collector. */
  readonly caFile: string | undefined;
  readonly certFile: string | undefined;
  readonly keyFile: string | undefined;
}

/** Undefined unless traces are asked for. */
export function settleTraces(values: TableValues, mistakes: string[]): TraceSettings | undefined {
  if (!areAskedFor(values, mistakes)) return undefined;
  const certFile = values.otlpTracesCertFile ?? values.otlpCertFile;
  const keyFile = values.otlpTracesKeyFile ?? values.otlpKeyFile;
  checkBoth("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE, OTEL_EXPORTER_OTLP_CLIENT_KEY", certFile, keyFile, mistakes);
  const { otelSampler, otelSamplerArg = 1, tracingSamplingRate, otlpHeaders = [], otlpTracesHeaders = [] } = values;
  const ofReference = values.tracingProtocol === "grpc" ? "grpc" : "http/protobuf";
  const protocol = values.otlpTracesProtocol ?? values.otlpProtocol ?? ofReference;
  return Object.freeze({
    protocol,
    url: urlOf(values, protocol),
    headers: Object.fromEntries([...otlpHeaders, ...otlpTracesHeaders]),
    sampler: otelSampler ?? "parentbased_traceidratio",
    samplingRate: otelSampler === undefined ? tracingSamplingRate : otelSamplerArg,
    resource: resourceOf(values),
    caFile: values.otlpTracesCaFile ?? values.otlpCaFile,
    certFile,
    keyFile,
  });
}

function areAskedFor({ tracingEnabled, otelExporter, otelDisabled }: TableValues, mistakes: string[]): boolean {
  if (otelDisabled?.toLowerCase() === "true" || tracingEnabled === false) return false;
  if (tracingEnabled === true) return true;
  if (otelExporter === undefined || otelExporter === "none") return false;
  if (otelExporter === "otlp") return true;
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
