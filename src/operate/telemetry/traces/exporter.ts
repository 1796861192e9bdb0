// Makes the exporter that sends spans by OTLP over HTTP or gRPC. Both exporters are OpenTelemetry's; this file adds a
// way to end their connections.

import { readFileSync } from "node:fs";
import type { Agent } from "node:http";
import { createSecureContext } from "node:tls";
import { credentials, Metadata } from "@grpc/grpc-js";
import type { SpanExporter } from "@opentelemetry/sdk-trace-base";
import { ConfigError } from "../../../base/errors.ts";
import { errorCode, errorMessage } from "../../../base/thrown.ts";
import type { TraceSettings } from "../../../settings/trace-settings.ts";

interface OpenExporter {
  readonly exporter: SpanExporter;
  /** Closes connections without waiting for answers. The next spans open new ones. */
  cutOff(): void;
}

/** Rejects with ConfigError if certificate files can't be used, with Node's error if packages are missing. */
export async function openExporter(settings: TraceSettings): Promise<OpenExporter> {
  try {
    return await (settings.protocol === "grpc" ? openGrpcExporter(settings) : openHttpExporter(settings));
  } catch (error) {
    if (errorCode(error) === "ERR_MODULE_NOT_FOUND") throw error;
    const names = "OTEL_EXPORTER_OTLP_CERTIFICATE, _CLIENT_CERTIFICATE, _CLIENT_KEY";
    throw new ConfigError(
      "CONFIG_SETTINGS",
      `${names}: expected certificates and a key in PEM: ${errorMessage(error)}`,
    );
  }
}

async function openHttpExporter({ url, headers, ...files }: TraceSettings): Promise<OpenExporter> {
  const { OTLPTraceExporter } = await import("@opentelemetry/exporter-trace-otlp-proto");
  const { Agent } = url.startsWith("https:") ? await import("node:https") : await import("node:http");
  const tls = readFiles(files);
  // Throws on bad certificates now; the agent would notice them only with the first spans.
  createSecureContext(tls);
  // One batch is under way at a time. The second connection is for the batch after one that was cut off.
  const agent: Agent = new Agent({ keepAlive: true, maxSockets: 2, maxFreeSockets: 1, ...tls });
  return {
    exporter: new OTLPTraceExporter({ url, headers: { ...headers }, httpAgentOptions: () => agent }),
    cutOff: () => agent.destroy(),
  };
}

// grpc-js sets a deadline for each request and reads at most 4 MB of an answer, so nothing needs to be cut off.
async function openGrpcExporter({ url, headers, ...files }: TraceSettings): Promise<OpenExporter> {
  const { OTLPTraceExporter } = await import("@opentelemetry/exporter-trace-otlp-grpc");
  const metadata = new Metadata();
  for (const [name, value] of Object.entries(headers)) metadata.set(name, value);
  const { ca, cert, key } = readFiles(files);
  const channel = url.startsWith("https:")
    ? credentials.createSsl(ca ?? null, key ?? null, cert ?? null)
    : credentials.createInsecure();
  return { exporter: new OTLPTraceExporter({ url, metadata, credentials: channel }), cutOff: () => undefined };
}

function readFiles({ caFile, certFile, keyFile }: Pick<TraceSettings, "caFile" | "certFile" | "keyFile">) {
  const read = (file: string | undefined) => (file === undefined ? undefined : readFileSync(file));
  return { ca: read(caFile), cert: read(certFile), key: read(keyFile) };
}
