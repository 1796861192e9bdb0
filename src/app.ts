// Composition root: builds the parts of a process (app/), starts and stops them in order. main.ts decides when.

import { type AppOptions, type AppParts, buildAppParts, showRulesHealth } from "./app/app-parts.ts";
import { type OpenPages, openAdmin, openGrpc } from "./app/open-ports.ts";
import { closeSnapshots, openSnapshots } from "./app/open-snapshots.ts";
import { watchStore } from "./app/store-watch.ts";
import { warmUpCalls, warmUpStore } from "./app/warm-up.ts";
import { openTraces } from "./telemetry/traces/open-traces.ts";
import type { GrpcServer } from "./transport/grpc-server.ts";

export type { AppOptions } from "./app/app-parts.ts";

/** How long the last spans may take to the collector, which nobody's answer hangs on. */
const LAST_SPANS_MS = 2_000;

/** A running service. */
export class App {
  readonly #parts: AppParts;
  readonly #grpc: GrpcServer;
  readonly #pages: OpenPages;
  readonly #storeWatch: NodeJS.Timeout;
  readonly grpcPort: number;
  readonly httpPort: number;
  /** Of the debug pages and of the metrics' second address; undefined where nothing listens. */
  readonly debugPort: number | undefined;
  readonly metricsPort: number | undefined;

  constructor(parts: AppParts, grpc: GrpcServer, pages: OpenPages, watch: NodeJS.Timeout) {
    this.#parts = parts;
    this.#grpc = grpc;
    this.#pages = pages;
    this.#storeWatch = watch;
    this.grpcPort = grpc.port;
    this.httpPort = pages.httpPort;
    this.debugPort = pages.side.debugPort;
    this.metricsPort = pages.side.metricsPort;
  }

  /** Reads the rule files now, whatever the watcher has seen. */
  async reload(): Promise<void> {
    await this.#parts.reloader.reload();
  }

  /**
   * Reports that it is not ready, serves on for SHUTDOWN_DELAY if `delays`, finishes what is under way for
   * SHUTDOWN_GRACE at most, writes the last snapshot.
   */
  async stop({ delays }: { readonly delays: boolean } = { delays: true }): Promise<void> {
    const { settings, health, reloader, running, store, snapshots, rareLog, calls } = this.#parts;
    health.setTrouble("shutdown", "the process is shutting down");
    if (delays && settings.shutdownDelayMs > 0)
      await new Promise((resolve) => setTimeout(resolve, settings.shutdownDelayMs));
    reloader.close();
    await this.#grpc.drain(settings.shutdownGraceMs);
    await Promise.all([
      this.#pages.admin.close(settings.shutdownGraceMs),
      this.#pages.side.close(settings.shutdownGraceMs),
    ]);
    clearInterval(this.#storeWatch);
    clearInterval(running.loadWatch);
    clearInterval(running.logWatch);
    clearInterval(running.conditionWatch);
    calls.unmatched.tell(rareLog);
    running.tls?.close();
    // Nobody takes any more: what is written now is exact.
    await closeSnapshots(snapshots, settings);
    await store.close();
    await running.statsd?.close();
    await running.traces?.close(LAST_SPANS_MS);
    await this.#parts.decisionLog?.close();
    rareLog.flush();
  }
}

/**
 * Builds the service and has it listen. A store that is away and rules that can't be used don't keep it from starting:
 * it is not ready and says why. Throws ConfigError if a port is taken or certificates can't be used.
 */
export async function startApp(options: AppOptions): Promise<App> {
  const parts = buildAppParts(options);
  const begun: Begun = {};
  try {
    return await start(parts, begun);
  } catch (error) {
    clearInterval(begun.storeWatch);
    clearInterval(parts.running.loadWatch);
    clearInterval(parts.running.logWatch);
    clearInterval(parts.running.conditionWatch);
    parts.reloader.close();
    parts.running.tls?.close();
    await Promise.all([
      begun.pages?.admin.close(0),
      begun.pages?.side.close(0),
      parts.running.statsd?.close(),
      parts.running.traces?.close(0),
    ]);
    await parts.snapshots?.abandon();
    await parts.store.close();
    throw error;
  }
}

/** What a start has begun, for the case that it fails. */
interface Begun {
  pages?: OpenPages;
  storeWatch?: NodeJS.Timeout;
}

async function start(parts: AppParts, begun: Begun): Promise<App> {
  const { settings, health, reloader, store, storeHealth, snapshots, logger } = parts;
  parts.running.traces = await openTraces(parts);
  // Taken back when calls are answered and not before, whatever else is well by then.
  health.setTrouble("start", "the process is starting: its gRPC port does not listen yet");
  health.setTrouble("rules", "the rule files have not been read yet");
  const pages = await openAdmin(parts);
  begun.pages = pages;
  const { httpPort, side } = pages;
  // Before any key is hashed; liveness answers meanwhile.
  await openSnapshots(snapshots);
  await reloader.start();
  showRulesHealth(parts);
  await warmUpCalls(parts.clock);
  const storeWatch = await watchStore(parts);
  begun.storeWatch = storeWatch;
  if (storeHealth.trouble() === undefined) await warmUpStore(store);
  const grpc = await openGrpc(parts, httpPort);
  health.setTrouble("start", undefined);
  const listening = settings.grpcUnixSocket ?? `${settings.grpcHost}:${grpc.port}`;
  const { debugPort: debug, metricsPort: metrics } = side;
  // Of several workers the supervisor says it, once for all.
  if (parts.link === undefined) {
    logger.info(
      { grpc: listening, http: `${settings.httpHost}:${httpPort}`, store: settings.backendType, debug, metrics },
      "listening",
    );
  }
  return new App(parts, grpc, pages, storeWatch);
}
