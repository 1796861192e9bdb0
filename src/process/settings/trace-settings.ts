// Combines the settings of traces: OpenTelemetry's variables override those of the reference service. They are checked only if traces
// are asked for.

import { checkBoth, checkReadable, quoted } from "./mistakes.ts";
import type { TableValues } from "./table.ts";
import { HEADER_NAME, percentDecoded } from "./value-types.ts";

const SAMPLERS = [
  "always_on",
  "always_off",
  "traceidratio",
  "parentbased_always_on",
  "parentbased_always_off",
  "parentbased_traceidratio",
] as const;
type SamplerName = (typeof SAMPLERS)[number];
const PROTOCOLS = ["http/protobuf", "grpc"] as const;
export type TraceProtocol = (typeof PROTOCOLS)[number];

/** The settings of traces, complete. */
export interface TraceSettings {
  readonly protocol: TraceProtocol;
  /** The collector's URL; with `http/protobuf` the whole URL to which spans are posted. */
  readonly url: string;
  /** Headers sent with spans; the values are secret. */
  readonly headers: Readonly<Record<string, string>>;
  readonly sampler: SamplerName;
  /** Share of traces that are recorded, 0 to 1, for the samplers that use it. */
  readonly samplingRate: number;
  /** Attributes of the resource, `service.name` among them. */
  readonly resource: Readonly<Record<string, string>>;
  /** Paths of PEM files for TLS towards the collector. */
  readonly caFile: string | undefined;
  readonly certFile: string | undefined;
  readonly keyFile: string | undefined;
}

/** Undefined unless traces are asked for. If they are, adds a line to `mistakes` for each unusable setting. */
export function settleTraces(values: TableValues, mistakes: string[]): TraceSettings | undefined {
  if (!areAskedFor(values, mistakes)) return undefined;
  const protocol = protocolOf(values, mistakes);
  const files = {
    caFile: fileOf("CERTIFICATE", values.otlpTracesCaFile, values.otlpCaFile, mistakes),
    certFile: fileOf("CLIENT_CERTIFICATE", values.otlpTracesCertFile, values.otlpCertFile, mistakes),
    keyFile: fileOf("CLIENT_KEY", values.otlpTracesKeyFile, values.otlpKeyFile, mistakes),
  };
  const names = "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE, OTEL_EXPORTER_OTLP_CLIENT_KEY";
  checkBoth(names, files.certFile, files.keyFile, mistakes);
  return Object.freeze({
    protocol,
    url: urlOf(values, protocol, mistakes),
    headers: {
      ...readHeaders("OTEL_EXPORTER_OTLP_HEADERS", values.otlpHeaders, mistakes),
      ...readHeaders("OTEL_EXPORTER_OTLP_TRACES_HEADERS", values.otlpTracesHeaders, mistakes),
    },
    ...samplingOf(values, mistakes),
    resource: resourceOf(values, mistakes),
    ...files,
  });
}

/** A collector's URL without user, password, query and fragment, which may be secret. Undefined for text that is no URL. */
export function showOtlpUrl(text: string): string | undefined {
  if (!URL.canParse(text)) return undefined;
  const { protocol, host, pathname } = new URL(text);
  return `${protocol}//${host}${pathname}`;
}

function areAskedFor({ tracingEnabled, otelExporter, otelDisabled }: TableValues, mistakes: string[]): boolean {
  if (otelDisabled?.toLowerCase() === "true" || tracingEnabled === false) return false;
  if (tracingEnabled === true) return true;
  if (otelExporter === undefined || otelExporter === "none") return false;
  if (otelExporter === "otlp") return true;
  mistakes.push(`OTEL_TRACES_EXPORTER: expected otlp or none, got ${quoted(otelExporter)}`);
  return false;
}

function protocolOf(values: TableValues, mistakes: string[]): TraceProtocol {
  const text = values.otlpTracesProtocol ?? values.otlpProtocol;
  if (text === undefined) return values.tracingProtocol === "grpc" ? "grpc" : "http/protobuf";
  const found = PROTOCOLS.find((protocol) => protocol === text);
  if (found === undefined)
    mistakes.push(`OTEL_EXPORTER_OTLP_PROTOCOL: expected http/protobuf or grpc, got ${quoted(text)}`);
  return found ?? "http/protobuf";
}

function urlOf(values: TableValues, protocol: TraceProtocol, mistakes: string[]): string {
  const { otlpTracesEndpoint, otlpEndpoint } = values;
  const [name, text] =
    otlpTracesEndpoint === undefined
      ? ["OTEL_EXPORTER_OTLP_ENDPOINT", otlpEndpoint]
      : ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", otlpTracesEndpoint];
  if (text === undefined) return protocol === "grpc" ? "http://localhost:4317" : "http://localhost:4318/v1/traces";
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !["http:", "https:"].includes(url.protocol) || url.username !== "" || url.password !== "") {
    mistakes.push(
      `${name}: expected a URL that begins with http:// or https:// and holds no user or password, got something else (not shown)`,
    );
    return "";
  }
  if (protocol === "grpc" || text === otlpTracesEndpoint) return text;
  url.pathname = `${url.pathname.replace(/\/$/, "")}/v1/traces`;
  return url.href;
}

function samplingOf(values: TableValues, mistakes: string[]): Pick<TraceSettings, "sampler" | "samplingRate"> {
  const { otelSampler, otelSamplerArg, tracingSamplingRate } = values;
  if (otelSampler === undefined) return { sampler: "parentbased_traceidratio", samplingRate: tracingSamplingRate };
  const sampler = SAMPLERS.find((name) => name === otelSampler);
  if (sampler === undefined)
    mistakes.push(`OTEL_TRACES_SAMPLER: expected one of ${SAMPLERS.join(", ")}, got ${quoted(otelSampler)}`);
  const samplingRate = Number(otelSamplerArg ?? 1);
  if (sampler?.endsWith("ratio") === true && !(samplingRate >= 0 && samplingRate <= 1))
    mistakes.push(`OTEL_TRACES_SAMPLER_ARG: expected a number from 0 to 1, got ${quoted(otelSamplerArg ?? "")}`);
  return { sampler: sampler ?? "always_off", samplingRate };
}

function resourceOf(values: TableValues, mistakes: string[]): Readonly<Record<string, string>> {
  const { tracingServiceName, tracingNamespace, tracingInstanceId, otelServiceName, otelResource } = values;
  const named = {
    "service.name": tracingServiceName,
    "service.namespace": tracingNamespace,
    "service.instance.id": tracingInstanceId,
    ...readPairs("OTEL_RESOURCE_ATTRIBUTES", otelResource, mistakes),
    ...(otelServiceName === undefined ? {} : { "service.name": otelServiceName }),
  };
  const given = Object.entries(named).filter((entry): entry is [string, string] => entry[1] !== undefined);
  return Object.freeze(Object.fromEntries(given));
}

function readHeaders(name: string, text: string | undefined, mistakes: string[]): Readonly<Record<string, string>> {
  const headers = readPairs(name, text, mistakes);
  const isOne = ([header, value]: [string, string]) =>
    HEADER_NAME.parse(header) !== undefined && /^[\x20-\x7e]*$/.test(value);
  if (!Object.entries(headers).every(isOne))
    mistakes.push(`${name}: expected names of headers and values in ASCII, got something else (not shown)`);
  return headers;
}

/** Reads OpenTelemetry's list of pairs: `key=value,key2=value2` with percent-encoded UTF-8. */
function readPairs(name: string, text: string | undefined, mistakes: string[]): Readonly<Record<string, string>> {
  const pairs: Record<string, string> = {};
  for (const part of (text ?? "").split(",").filter((piece) => piece.trim() !== "")) {
    const at = part.indexOf("=");
    const key = percentDecoded(part.slice(0, Math.max(0, at)).trim());
    const value = percentDecoded(part.slice(at + 1).trim());
    if (key === undefined || key === "" || value === undefined) {
      mistakes.push(
        `${name}: expected name=value,name2=value2 with percent-encoded values, got something else (not shown)`,
      );
      return {};
    }
    pairs[key] = value;
  }
  return pairs;
}

function fileOf(
  ending: string,
  ofTraces: string | undefined,
  ofAll: string | undefined,
  mistakes: string[],
): string | undefined {
  const file = ofTraces ?? ofAll;
  const name = `OTEL_EXPORTER_OTLP_${ofTraces === undefined ? "" : "TRACES_"}${ending}`;
  if (file !== undefined) checkReadable(name, file, mistakes);
  return file;
}
