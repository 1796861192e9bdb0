// The mirror's HTTP port: report, metrics, health.

import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { listenTrouble } from "../../engine/base/cannot-listen.ts";
import { ConfigError } from "../../engine/base/errors.ts";
import { METRICS_TYPE } from "../../operate/telemetry/metric-text.ts";
import { type Report, reportText } from "./report.ts";

interface PagesOptions {
  readonly host: string;
  /** 0: any free port. */
  readonly port: number;
  readonly report: () => Report;
  /** The text of all metrics. */
  readonly metrics: () => Promise<string>;
  /** Whether the answering target is connected. */
  readonly isReady: () => boolean;
  readonly onError: (error: unknown) => void;
}

/** A listening HTTP port. */
interface Pages {
  readonly port: number;
  close(): Promise<void>;
}

interface Answer {
  readonly status: number;
  readonly type: string;
  readonly body: string;
}

const TEXT = "text/plain; charset=utf-8";
const INDEX = `/report       what differed, as text, or as JSON with Accept: application/json or ?format=json
/metrics      metrics for Prometheus
/healthcheck  200 while the answering target is connected, else 500
/livez        200 as long as the mirror works at all
`;
const CONNECTIONS_MAX = 256;
const TIMEOUT_MS = 10_000;

/** Begins to listen. Throws ConfigError if it can't. */
export async function openPages(options: PagesOptions): Promise<Pages> {
  const server = createServer({ headersTimeout: TIMEOUT_MS, requestTimeout: TIMEOUT_MS }, (request, response) => {
    answer(request, options).then(
      (page) => send(response, page),
      (error: unknown) => {
        options.onError(error);
        send(response, { status: 500, type: TEXT, body: "Internal Server Error\n" });
      },
    );
  });
  server.maxConnections = CONNECTIONS_MAX;
  const { host, port } = options;
  await new Promise<void>((resolve, reject) => {
    server.once("error", (cause: NodeJS.ErrnoException) => {
      reject(new ConfigError("CONFIG_SETTINGS", `HTTP can't listen on ${host}:${port}: ${listenTrouble(cause)}`));
    });
    server.listen(port, host, resolve);
  });
  return {
    port: (server.address() as AddressInfo).port,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

async function answer(request: IncomingMessage, options: PagesOptions): Promise<Answer> {
  const [path, query = ""] = (request.url ?? "").split("?", 2);
  if (request.method !== "GET" && request.method !== "HEAD") {
    return { status: 405, type: TEXT, body: "405 method not allowed\n" };
  }
  switch (path) {
    case "/":
      return { status: 200, type: TEXT, body: INDEX };
    case "/report":
      return reportPage(options.report(), wantsJson(request, query));
    case "/metrics":
      return { status: 200, type: METRICS_TYPE, body: await options.metrics() };
    case "/healthcheck":
      return options.isReady()
        ? { status: 200, type: TEXT, body: "OK" }
        : { status: 500, type: TEXT, body: "the answering target is not connected\n" };
    case "/livez":
      return { status: 200, type: TEXT, body: "OK\n" };
    default:
      return { status: 404, type: TEXT, body: "404 page not found\n" };
  }
}

function wantsJson(request: IncomingMessage, query: string): boolean {
  return query.split("&").includes("format=json") || (request.headers.accept ?? "").includes("application/json");
}

function reportPage(report: Report, asJson: boolean): Answer {
  if (!asJson) return { status: 200, type: TEXT, body: reportText(report) };
  return { status: 200, type: "application/json", body: `${JSON.stringify(report, null, 2)}\n` };
}

function send(response: ServerResponse, { status, type, body }: Answer): void {
  response.writeHead(status, {
    "content-type": type,
    "content-length": Buffer.byteLength(body),
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
  });
  response.end(body);
}
