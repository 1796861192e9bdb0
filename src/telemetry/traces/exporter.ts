// Makes the exporter that sends spans by OTLP, over HTTP or gRPC. Both are OpenTelemetry's; what is ours is an end to all that they
// have open.

import { readFileSync } from "node:fs";
import type { Agent } from "node:http";
import { credentials, Metadata } from "@grpc/grpc-js";
import type { SpanExporter } from "@opentelemetry/sdk-trace-base";
import type { TraceSettings } from "../../settings/trace-settings.ts";
import { loadGrpcExporter, loadHttpExporter } from "./load-packages.ts";

interface OpenExporter {
  readonly exporter: SpanExporter;
  /** Ends connections, with the answers that are waited for on them. The next span makes new ones. */
  cutOff(): void;
}

export function openExporter(settings: TraceSettings): Promise<OpenExporter> {
  return settings.protocol === "grpc" ? openGrpcExporter(settings) : openHttpExporter(settings);
}

async function openHttpExporter({ url, headers, ...files }: TraceSettings): Promise<OpenExporter> {
  const { OTLPTraceExporter } = await loadHttpExporter();
  const { Agent } = url.startsWith("https:") ? await import("node:https") : await import("node:http");
  // One batch is under way at a time; a second connection is for what follows one that was cut off.
  const agent: Agent = new Agent({ keepAlive: true, maxSockets: 2, maxFreeSockets: 1, ...readFiles(files) });
  return {
    exporter: new OTLPTraceExporter({ url, headers: { ...headers }, httpAgentOptions: () => agent }),
    cutOff: () => agent.destroy(),
  };
}

// grpc-js gives every request a deadline, and takes no more than 4 MB of an answer: nothing is left to cut off.
async function openGrpcExporter({ url, headers, ...files }: TraceSettings): Promise<OpenExporter> {
  const { OTLPTraceExporter } = await loadGrpcExporter();
  const metadata = new Metadata();
  for (const [name, value] of Object.entries(headers)) metadata.set(name, value);
  const { ca, cert, key } = readFiles(files);
  const channel = url.startsWith("https:")
    ? credentials.createSsl(ca ?? null, key ?? null, cert ?? null)
    : credentials.createInsecure();
  return { exporter: new OTLPTraceExporter({ url, metadata, credentials: channel }), cutOff: () => undefined };
}

type TlsFiles = Pick<TraceSettings, "caFile" | "certFile" | "keyFile">;

function readFiles({ caFile, certFile, keyFile }: TlsFiles): {
  readonly ca?: Buffer;
  readonly cert?: Buffer;
  readonly key?: Buffer;
} {
  return {
    ...(caFile === undefined ? {} : { ca: readFileSync(caFile) }),
    ...(certFile === undefined ? {} : { cert: readFileSync(certFile) }),
    ...(keyFile === undefined ? {} : { key: readFileSync(keyFile) }),
  };
}
