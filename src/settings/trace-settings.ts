// Combines the settings of traces: OpenTelemetry's variables override those of the reference service.

import { checkBoth } from "./mistakes.ts";
import type { TableValues } from "./table.ts";

export type TraceProtocol = TableValues["tracingProtocol"];

/** The settings of traces, complete. */
export type TraceSettings = NonNullable<ReturnType<typeof tracesOf>>;

/** Undefined unless traces are asked for. */
export function tracesOf(values: TableValues, mistakes: string[]) {
  if (values.tracingEnabled !== true) return undefined;
  const { otlpCaFile: caFile, otlpCertFile: certFile, otlpKeyFile: keyFile, tracingProtocol: protocol } = values;
  checkBoth("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE, OTEL_EXPORTER_OTLP_CLIENT_KEY", certFile, keyFile, mistakes);
  return Object.freeze({
    protocol,
    /** The collector's URL; with `http/protobuf` the whole URL to which spans are posted. */
    url: urlOf(values, protocol),
    /** Headers sent with spans; the values are secret. */
    headers: Object.fromEntries(values.otlpHeaders ?? []),
    /** Share of calls without a traced caller that are recorded, 0 to 1. */
    samplingRate: values.tracingSamplingRate,
    resource: resourceOf(values),
    /** Paths of PEM files for TLS towards the collector. */
    caFile,
    certFile,
    keyFile,
  });
}

function urlOf({ otlpEndpoint }: TableValues, protocol: TraceProtocol): string {
  if (protocol === "grpc") return otlpEndpoint ?? "http://localhost:4317";
  const url = new URL(otlpEndpoint ?? "http://localhost:4318");
  url.pathname = `${url.pathname.replace(/\/$/, "")}/v1/traces`;
  return url.href;
}

/** Attributes of the resource, `service.name` among them. */
function resourceOf(values: TableValues): Readonly<Record<string, string>> {
  const { tracingServiceName, tracingNamespace, tracingInstanceId, otelResource = [] } = values;
  const named = {
    "service.name": "headgate",
    "service.namespace": tracingNamespace,
    "service.instance.id": tracingInstanceId,
    ...Object.fromEntries(otelResource),
    ...(tracingServiceName === undefined ? {} : { "service.name": tracingServiceName }),
  };
  const given = Object.entries(named).filter((entry): entry is [string, string] => entry[1] !== undefined);
  return Object.freeze(Object.fromEntries(given));
}
