// Everything that listens: the gRPC port with its services, the HTTP port with its pages, and the certificates.

import { ReserveService, SettleService } from "../../grpc/rls/budgets.ts";
import { createJsonEndpoint, httpStatusOf, JSON_BYTES_MAX } from "../../grpc/rls/json.ts";
import type { MetadataMode } from "../../grpc/rls/metadata.ts";
import { RateLimitService } from "../../grpc/rls/service.ts";
import type { FastLaneOptions } from "../../grpc/transport/fast-lane.ts";
import {
  messageType,
  protobuf,
  RESERVE_PATH,
  SETTLE_PATH,
  SHOULD_RATE_LIMIT_PATH,
} from "../../grpc/transport/load-proto.ts";
import type { GrpcServer } from "../../grpc/transport/transport.ts";
import { openDebugServer } from "../../operate/http/debug-server.ts";
import type { PageAddress, PageServer } from "../../operate/http/page-server.ts";
import { type AdminSources, openAdminServer, openMetricsServer } from "../../operate/http/server.ts";
import { Tokens } from "../../operate/http/tokens.ts";
import { openNodeMetrics } from "../../operate/telemetry/node-metrics.ts";
import { httpCalls, rpcCalls } from "../../operate/telemetry/traces/call-tracer.ts";
import type { HeaderDialect } from "../../settings/header-dialects.ts";
import type { Settings } from "../../settings/settings.ts";
import type { AppParts } from "./app-parts.ts";
import { watchConditions } from "./condition-watch.ts";
import { readConfig } from "./config-page.ts";
import { explainQuestion } from "./explain-page.ts";
import { readTop } from "./open-top.ts";
import { addressOf, goOnWithout, type PageName } from "./page-addresses.ts";
import { metricsText } from "./process-metrics.ts";
import { publishReports } from "./publish-report.ts";
import { readRules, readState } from "./state-page.ts";
import { openTls } from "./tls-watch.ts";

/** How often ADMIN_TOKEN_FILE is read, unless somebody comes with a token. */
const TOKENS_LOOK_MS = 5_000;
const KEEPALIVE_MS = 60_000;
const CONCURRENT_STREAMS_MAX = 4_096;
/** Most bytes of a gRPC message, as in gRPC's own servers. */
const REQUEST_BYTES_MAX = 4_194_304;
/**
 * Most complete requests to /json under way, however high IN_FLIGHT_MAX is: each may hold a body of JSON_BYTES_MAX
 * bytes.
 */
const JSON_IN_FLIGHT_MAX = 1_000;

/** The ports of pages; undefined where nothing listens. */
type PagePorts = Partial<Record<PageName, number>>;

/** Opens the HTTP port and the optional ports. Rejects with ConfigError if the HTTP port can't be opened. */
export async function openAdmin(parts: AppParts): Promise<PagePorts> {
  const { settings, running, logger } = parts;
  const { prometheusPath: metricsPath, httpHosts: hosts } = settings;
  const sources = adminSources(parts);
  const servers: Readonly<Record<PageName, (at: PageAddress) => PageServer>> = {
    http: (at) => openAdminServer(at, { metricsPath, bodyBytesMax: JSON_BYTES_MAX, hosts }, sources),
    debug: (at) => openDebugServer(at, hosts, sources),
    metrics: (at) => openMetricsServer(at, metricsPath, sources),
  };
  const ports: PagePorts = {};
  for (const name of ["http", "debug", "metrics"] as const) {
    const address = addressOf(name, settings);
    if (address === undefined) continue;
    const server = servers[name](address);
    try {
      ports[name] = await server.listen();
      running.pages.push(server);
    } catch (cause) {
      goOnWithout(name, address, cause, logger);
    }
  }
  return ports;
}

/** Opens the gRPC port. Rejects with ConfigError if that fails, or if its certificates can't be used. */
export async function openGrpc(parts: AppParts, httpPort: number): Promise<GrpcServer> {
  const { settings, calls } = parts;
  parts.running.tls = openTls(parts);
  const service = serviceOptions(parts, settings.responseHeaders);
  const traced = (path: string) => ({ ...service, tracer: parts.running.traces?.tracerOf(rpcCalls(path)) });
  const options: FastLaneOptions = {
    httpPort,
    host: settings.grpcHost,
    port: settings.grpcPort,
    unixSocket: settings.grpcUnixSocket,
    tls: parts.running.tls,
    methods: [
      { path: SHOULD_RATE_LIMIT_PATH, handler: new RateLimitService(traced(SHOULD_RATE_LIMIT_PATH)) },
      { path: RESERVE_PATH, handler: new ReserveService(traced(RESERVE_PATH)) },
      { path: SETTLE_PATH, handler: new SettleService(traced(SETTLE_PATH)) },
    ],
    streams: [parts.quota.method],
    onDrain: () => parts.quota.close(),
    clock: parts.clock,
    health: parts.health,
    reflection: !settings.compatibilityMode,
    maxConnectionAgeMs: settings.grpcMaxConnectionAgeMs || Number.POSITIVE_INFINITY,
    maxConnectionAgeGraceMs: settings.grpcMaxConnectionAgeGraceMs,
    keepaliveMs: KEEPALIVE_MS,
    maxConcurrentStreams: CONCURRENT_STREAMS_MAX,
    maxMessageBytes: REQUEST_BYTES_MAX,
    inFlightMax: settings.inFlightMax,
    observer: {
      handlerFailed: (path, error) =>
        calls.internalFailed(new Error(`the handler of ${path} failed`, { cause: error })),
      overloaded: () => calls.overloaded(),
      unserved: (reason, path) => calls.unservedCall(reason, path),
    },
  };
  const grpc = await startTransport(settings, options);
  parts.running.grpc = grpc;
  return grpc;
}

async function startTransport({ grpcTransport }: Settings, options: FastLaneOptions): Promise<GrpcServer> {
  if (grpcTransport === "grpc-js") {
    const { startGrpcServer } = await import("../../grpc/transport/grpc-server.ts");
    return startGrpcServer(options);
  }
  const { startFastLane } = await import("../../grpc/transport/fast-lane.ts");
  return startFastLane(options);
}

function serviceOptions(
  { limiter, calls, settings, decisionLog }: AppParts,
  dialects: readonly HeaderDialect[],
): ConstructorParameters<typeof RateLimitService>[0] {
  const { limitHeader, remainingHeader, resetHeader } = settings;
  return {
    limiter,
    headers: { dialects, limitHeader, remainingHeader, resetHeader, explainsRefusals: !settings.compatibilityMode },
    metadata: metadataMode(settings),
    unitMultiplier: settings.responseUnitMultiplier,
    onInternalError: (error) => calls.internalFailed(error),
    onRequestError: (error) => calls.requestFailed(error.code),
    decisions: decisionLog?.log,
  };
}

function metadataMode({ responseDynamicMetadata, compatibilityMode }: Settings): MetadataMode {
  if (compatibilityMode) return responseDynamicMetadata === true ? "reference" : "off";
  if (responseDynamicMetadata === undefined) return "notable";
  return responseDynamicMetadata ? "full" : "off";
}

function adminSources(parts: AppParts): AdminSources {
  const { settings, calls, health, reloader } = parts;
  // Callers over HTTP get headers even if none are configured for Envoy: no proxy adds headers for them.
  const dialects: readonly HeaderDialect[] =
    settings.responseHeaders.length > 0 || settings.compatibilityMode ? settings.responseHeaders : ["x-ratelimit"];
  const options = serviceOptions(parts, dialects);
  const endpoint = createJsonEndpoint({
    handler: new RateLimitService({
      ...options,
      tracer: parts.running.traces?.tracerOf(httpCalls("/json", httpStatusOf)),
    }),
    proto: { protobuf, messageType },
    inFlightMax: Math.min(settings.inFlightMax, JSON_IN_FLIGHT_MAX),
    onOverload: () => calls.overloaded(),
    onInternalError: options.onInternalError,
    onRequestError: options.onRequestError,
  });
  const ofNode = openNodeMetrics();
  const onTrouble = (trouble: string | undefined) => health.setNote("admin tokens", trouble);
  const tokens = new Tokens(settings, parts.clock, parts.logger, onTrouble);
  parts.running.watches.push(setInterval(() => tokens.look(), TOKENS_LOOK_MS).unref());
  const conditions = watchConditions(parts);
  publishReports(parts, conditions);
  return {
    answerJson: (readBody, caller) => endpoint.answer(readBody, caller),
    health,
    metricsText: () => metricsText(parts, ofNode),
    rules: reloader,
    config: () => readConfig(parts),
    explain: (question, showsWho) => explainQuestion(parts, question, showsWho),
    buckets: parts.buckets,
    limits: parts.runtimeLimits.source,
    state: (scope, showsWho) => readState(parts, conditions(), { scope, showsWho }),
    history: async (span, showsWho) => {
      const view = parts.history[span].view();
      return view === undefined ? null : { ...view, events: parts.events.list(showsWho) };
    },
    ruleRows: async (question) => readRules(parts, question),
    top: parts.topKeys && ((question) => readTop(parts, question, tokens.isAsked)),
    tokens,
    watch: parts.adminWatch,
    onError: (error) => calls.internalFailed(error),
  };
}
