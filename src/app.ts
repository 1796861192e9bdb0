// Composition root: the only file that picks concrete classes and joins them. main.ts decides when to start and stop.

import { AdminServer } from "./admin/server.ts";
import type { ExplainQuestion, RulesState } from "./admin/views.ts";
import { Reloader } from "./config/reload.ts";
import { type Clock, SystemClock, WallClock } from "./core/clock.ts";
import { ConfigError } from "./core/errors.ts";
import { HealthState } from "./core/health.ts";
import { ON_STORE_FAILURE_NAMES, OnStoreFailure } from "./core/limit.ts";
import type { LimitStats } from "./core/limit-stats.ts";
import { MICROS_PER_MILLI, MICROS_PER_SECOND } from "./core/units.ts";
import { LocalFallback } from "./limiter/failure-policy.ts";
import { Limiter } from "./limiter/limiter.ts";
import { LocalCache } from "./limiter/local-cache.ts";
import type { HeaderDialect } from "./rls/headers.ts";
import { createJsonDoor } from "./rls/json.ts";
import type { MetadataMode } from "./rls/metadata.ts";
import { RateLimitService, type ServiceOptions } from "./rls/service.ts";
import { explainRequest } from "./rules/explain.ts";
import type { RuleSet } from "./rules/rule-set.ts";
import { describeSettings, type Settings } from "./settings.ts";
import { MemoryStore } from "./stores/memory/memory-store.ts";
import { openRedisStore } from "./stores/redis/redis-store.ts";
import type { Store } from "./stores/store.ts";
import type { Logger } from "./telemetry/logger.ts";
import { CallCounts, StoreCounts } from "./telemetry/observers.ts";
import { PrometheusExporter } from "./telemetry/prometheus.ts";
import { RateLimitedLog } from "./telemetry/rate-limited-log.ts";
import { LimitStatsBook } from "./telemetry/stats-book.ts";
import { type GrpcServer, startGrpcServer } from "./transport/grpc-server.ts";
import { loadRegistry, SHOULD_RATE_LIMIT_PATH } from "./transport/load-proto.ts";

/** How often the store is asked whether it is in trouble, for the health pages. */
const STORE_WATCH_MS = 250;
/** How long a start waits for the store before it listens without being ready. */
const STORE_START_MS = 2_000;
const KEEPALIVE_MS = 60_000;
const CONCURRENT_STREAMS_MAX = 4_096;

export interface AppOptions {
  readonly settings: Settings;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly version: string;
}

/** What the parts of a process share. */
interface Parts extends AppOptions {
  readonly health: HealthState;
  readonly calls: CallCounts;
  readonly storeCounts: StoreCounts;
  readonly statsBook: LimitStatsBook;
  readonly store: Store;
  readonly limiter: Limiter;
  readonly reloader: Reloader;
  /** What is there only once the process listens. */
  readonly running: { grpc?: GrpcServer };
}

/** A running service. */
export class App {
  readonly #parts: Parts;
  readonly #grpc: GrpcServer;
  readonly #admin: AdminServer;
  readonly #storeWatch: NodeJS.Timeout;
  readonly grpcPort: number;
  readonly httpPort: number;

  constructor(
    parts: Parts,
    servers: { grpc: GrpcServer; admin: AdminServer; httpPort: number },
    watch: NodeJS.Timeout,
  ) {
    this.#parts = parts;
    this.#grpc = servers.grpc;
    this.#admin = servers.admin;
    this.#storeWatch = watch;
    this.grpcPort = servers.grpc.port;
    this.httpPort = servers.httpPort;
  }

  /** Reads the rule files now, whatever the watcher has seen. */
  async reload(): Promise<void> {
    await this.#parts.reloader.reload();
  }

  /**
   * Says goodbye to load balancers, serves on for SHUTDOWN_DELAY if `delays`, finishes what is under way for
   * SHUTDOWN_GRACE at most.
   */
  async stop({ delays }: { readonly delays: boolean } = { delays: true }): Promise<void> {
    const { settings, health, reloader, store } = this.#parts;
    health.setTrouble("shutdown", "the process is shutting down");
    if (delays && settings.shutdownDelayMs > 0)
      await new Promise((resolve) => setTimeout(resolve, settings.shutdownDelayMs));
    reloader.close();
    await this.#grpc.drain(settings.shutdownGraceMs);
    await this.#admin.close(settings.shutdownGraceMs);
    clearInterval(this.#storeWatch);
    await store.close();
  }
}

/**
 * Builds the service and has it listen. A store that is away and rules that can't be used don't keep it from starting:
 * it is not ready and says why. Throws ConfigError if a port is taken.
 */
export async function startApp(options: AppOptions): Promise<App> {
  const parts = buildParts(options);
  const { settings, health, reloader, store, logger } = parts;
  health.setTrouble("rules", "the rule files have not been read yet");
  const admin = new AdminServer(
    {
      host: settings.httpHost,
      port: settings.httpPort,
      metricsPath: settings.prometheusPath,
      bodyBytesMax: settings.requestBytesMax,
    },
    adminSources(parts),
  );
  const httpPort = await listenOrExplain(admin, settings);
  await reloader.start();
  showRulesHealth(parts);
  const storeWatch = await watchStore(parts);
  const grpc = await startGrpcServer({
    host: settings.grpcHost,
    port: settings.grpcPort,
    unixSocket: settings.grpcUnixSocket,
    methods: [
      { path: SHOULD_RATE_LIMIT_PATH, handler: new RateLimitService(serviceOptions(parts, settings.responseHeaders)) },
    ],
    clock: parts.clock,
    health,
    reflection: settings.grpcReflection,
    maxConnectionAgeMs: settings.grpcMaxConnectionAgeMs,
    maxConnectionAgeGraceMs: settings.grpcMaxConnectionAgeGraceMs,
    keepaliveMs: KEEPALIVE_MS,
    maxConcurrentStreams: CONCURRENT_STREAMS_MAX,
    maxMessageBytes: settings.requestBytesMax,
    inFlightMax: settings.inFlightMax,
    observer: {
      handlerFailed: (path, error) =>
        parts.calls.internalFailed(new Error(`the handler of ${path} failed`, { cause: error })),
      overloaded: () => parts.calls.overloaded(),
    },
  }).catch(async (error: unknown) => {
    clearInterval(storeWatch);
    reloader.close();
    await admin.close(0);
    await store.close();
    throw error;
  });
  parts.running.grpc = grpc;
  const listening = settings.grpcUnixSocket ?? `${settings.grpcHost}:${grpc.port}`;
  logger.info({ grpc: listening, http: `${settings.httpHost}:${httpPort}`, store: settings.backendType }, "listening");
  return new App(parts, { grpc, admin, httpPort }, storeWatch);
}

function buildParts(options: AppOptions): Parts {
  const { settings, clock, logger } = options;
  const rareLog = new RateLimitedLog(logger, clock);
  const calls = new CallCounts(rareLog);
  const storeCounts = new StoreCounts(rareLog);
  const statsBook = new LimitStatsBook(settings.metricValuesMax);
  const store = openStore(options, storeCounts);
  const openLocalStore = () => new MemoryStore({ clock, observer: storeCounts, bucketsMax: settings.bucketsMax });
  const onStoreFailure = policyOf(settings);
  const limiter = new Limiter({
    store,
    clock,
    observer: calls,
    fallback: new LocalFallback(openLocalStore, () => store.processCount()),
    nearLimitRatio: settings.nearLimitRatio,
    shadowMode: settings.shadowMode,
    quotaMode: settings.quotaMode,
    onStoreFailure,
    retryAfterJitter: settings.retryAfterJitter,
    statsBook,
    ...compatibleLimiting(options),
  });
  const reloader = new Reloader({
    directory: settings.rulesDir,
    load: {
      cacheKeyPrefix: settings.cacheKeyPrefix,
      mergeDomains: settings.mergesDomains,
      defaultOnStoreFailure: onStoreFailure,
      defaultRetryAfterJitter: settings.retryAfterJitter,
      statsBook,
      compatible: settings.compatibilityMode,
      everyFile: settings.readsEveryFile,
      dotFiles: !settings.ignoresDotFiles,
    },
    clock,
    log: logger,
    pollIntervalMs: settings.rulesPollIntervalMs,
  });
  const parts: Parts = {
    ...options,
    health: new HealthState(),
    calls,
    storeCounts,
    statsBook,
    store,
    limiter,
    reloader,
    running: {},
  };
  reloader.subscribe((rules) => putInForce(parts, rules));
  return parts;
}

// Counters in Redis are cut by the host's own clock, as the reference service cuts them; in memory nobody else counts.
function compatibleLimiting({ settings, clock }: AppOptions) {
  const { compatibilityMode, stopsAtOver, localCacheBytes } = settings;
  return {
    compatible: compatibilityMode,
    stopsAtOver,
    windowClock: settings.redis !== undefined && clock instanceof SystemClock ? new WallClock() : clock,
    localCache: compatibilityMode && localCacheBytes > 0 ? new LocalCache(localCacheBytes) : undefined,
  };
}

function openStore({ settings, clock }: AppOptions, observer: StoreCounts): Store {
  if (settings.redis === undefined) return new MemoryStore({ clock, observer, bucketsMax: settings.bucketsMax });
  return openRedisStore({
    target: settings.redis,
    keyPrefix: settings.cacheKeyPrefix,
    deadlineMs: settings.storeDeadlineUs / MICROS_PER_MILLI,
    takesInFlightMax: settings.storeQueueMax,
    breaker: {
      windowUs: settings.breakerWindowMs * MICROS_PER_MILLI,
      outcomesMin: settings.breakerCallsMin,
      failureShare: settings.breakerFailureRatio,
      pauseUs: settings.breakerProbeIntervalMs * MICROS_PER_MILLI,
    },
    observer,
    clock,
  });
}

function putInForce(parts: Parts, rules: RuleSet): void {
  parts.limiter.useRules(rules);
  const inUse = new Set<LimitStats>();
  let needsProcessCount = false;
  for (const domain of rules.domains.values()) {
    for (const limit of domain.limits) {
      inUse.add(limit.stats);
      if (limit.onStoreFailure === OnStoreFailure.local) needsProcessCount = true;
    }
  }
  parts.statsBook.retainOnly(inUse);
  // The first question makes the store begin to count processes; `local` needs the number when it is too late to ask.
  if (needsProcessCount) parts.store.processCount();
  showRulesHealth(parts);
}

function showRulesHealth({ health, reloader, settings }: Parts): void {
  const { current } = reloader;
  if (current === undefined) {
    const why = reloader.status().lastError?.message ?? "the rule files have not been read yet";
    health.setTrouble("rules", `no rules are in force: ${why}; see /config`);
  } else if (settings.readyNeedsDomain && current.domains.size === 0) {
    health.setTrouble("rules", "no domain is configured, and HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED asks for one");
  } else health.setTrouble("rules", undefined);
}

/**
 * Watches the store for the health pages, and waits a little for it at the start. A process is not ready before the store
 * has answered once; later it is unready only if calls would get errors (ON_STORE_FAILURE=error), since all others are answered.
 */
async function watchStore(parts: Parts): Promise<NodeJS.Timeout> {
  const { store, health, settings, logger } = parts;
  let hasAnswered = false;
  let shown: string | undefined;
  const look = () => {
    const trouble = store.trouble();
    hasAnswered ||= trouble === undefined;
    const blocks = !hasAnswered || settings.onStoreFailure === "error";
    health.setTrouble("store", trouble !== undefined && blocks ? trouble : undefined);
    health.setNote("store", trouble);
    if (trouble !== shown) {
      if (trouble === undefined) logger.info({ store: settings.backendType }, "the store answers");
      else logger.warn({ store: settings.backendType, reason: trouble }, "the store does not answer");
      shown = trouble;
    }
    return hasAnswered;
  };
  const watch = setInterval(look, STORE_WATCH_MS);
  for (let waitedMs = 0; !look() && waitedMs < STORE_START_MS; waitedMs += STORE_WATCH_MS / 5) {
    await new Promise((resolve) => setTimeout(resolve, STORE_WATCH_MS / 5));
  }
  return watch;
}

function serviceOptions({ limiter, calls, settings }: Parts, dialects: readonly HeaderDialect[]): ServiceOptions {
  const { limitHeader, remainingHeader, resetHeader } = settings;
  return {
    limiter,
    headers: { dialects, limitHeader, remainingHeader, resetHeader, explainsRefusals: !settings.compatibilityMode },
    metadata: metadataMode(settings),
    onInternalError: (error) => calls.internalFailed(error),
    onRequestError: (error) => calls.requestFailed(error.code),
  };
}

function metadataMode({ responseDynamicMetadata, compatibilityMode }: Settings): MetadataMode {
  if (compatibilityMode) return responseDynamicMetadata === true ? "reference" : "off";
  if (responseDynamicMetadata === undefined) return "notable";
  return responseDynamicMetadata ? "full" : "off";
}

function policyOf(settings: Settings): OnStoreFailure {
  return ON_STORE_FAILURE_NAMES.indexOf(settings.onStoreFailure) as OnStoreFailure;
}

function adminSources(parts: Parts): ConstructorParameters<typeof AdminServer>[1] {
  const { settings, calls, health } = parts;
  // Callers over HTTP get headers even if none are configured for Envoy: there is nobody else to make them.
  const dialects: readonly HeaderDialect[] =
    settings.responseHeaders.length > 0 || settings.compatibilityMode ? settings.responseHeaders : ["x-ratelimit"];
  const options = serviceOptions(parts, dialects);
  const door = createJsonDoor({
    handler: new RateLimitService(options),
    registry: loadRegistry(),
    onInternalError: options.onInternalError,
    onRequestError: options.onRequestError,
  });
  const exporter = new PrometheusExporter(metricSources(parts));
  return {
    answerJson: (body) => door.answer(body),
    health,
    metricsText: () => exporter.metricsText(),
    metricsContentType: exporter.contentType,
    rulesState: () => rulesState(parts),
    settings: describeSettings(settings),
    explain: (question) => explainQuestion(parts, question),
    onError: (error) => calls.internalFailed(error),
  };
}

function metricSources(parts: Parts): ConstructorParameters<typeof PrometheusExporter>[0] {
  const { calls, storeCounts, statsBook, store, reloader, clock, health, version, running } = parts;
  return {
    calls,
    store: storeCounts,
    reloads: () => reloader.status(),
    statsBook,
    rules: () => {
      const { current } = reloader;
      const loadedAtUs = reloader.status().loadedAtUs;
      if (current === undefined || loadedAtUs === undefined) return undefined;
      let limits = 0;
      for (const domain of current.domains.values()) limits += domain.limits.length;
      return {
        version: current.version,
        hash: current.hash,
        limits,
        ageSeconds: (clock.nowUs() - loadedAtUs) / MICROS_PER_SECOND,
      };
    },
    buckets: () => (store instanceof MemoryStore ? store.bucketCount : undefined),
    inFlight: () => running.grpc?.inFlight() ?? 0,
    isReady: () => health.isServing(),
    version,
  };
}

function rulesState({ reloader, settings }: Parts): RulesState {
  const { loadedAtUs, lastError } = reloader.status();
  return { directory: settings.rulesDir, rules: reloader.current, loadedAtUs, lastFailure: lastError };
}

function explainQuestion({ reloader }: Parts, question: ExplainQuestion): unknown {
  const rules = reloader.current;
  if (rules === undefined) return { says: "no rules are in force; /config says why" };
  return explainRequest(rules, question.domain, question.descriptors);
}

async function listenOrExplain(admin: AdminServer, { httpHost, httpPort }: Settings): Promise<number> {
  try {
    return await admin.listen();
  } catch (cause) {
    const why =
      cause instanceof Error && "code" in cause && cause.code === "EADDRINUSE"
        ? "something else listens there"
        : String(cause);
    throw new ConfigError("CONFIG_SETTINGS", `HTTP can't listen on ${httpHost}:${httpPort} (HOST and PORT): ${why}`);
  }
}
