// Composition root: has app/ build the parts of a process, starts them and stops them in order. main.ts decides when.

import type { GrpcServer } from "../grpc/transport/grpc-server.ts";
import { openTraces } from "../operate/telemetry/traces/open-traces.ts";
import { type AppOptions, type AppParts, buildAppParts, showRulesHealth } from "./app/app-parts.ts";
import { type OpenPages, openAdmin, openGrpc } from "./app/open-ports.ts";
import { closeSnapshots, openSnapshots } from "./app/open-snapshots.ts";
import { watchStore } from "./app/store-watch.ts";
import { warmUpCalls, warmUpStore } from "./app/warm-up.ts";

export type { AppOptions } from "./app/app-parts.ts";

/** Longest time, in milliseconds, to send the last spans at shutdown; no call waits for them. */
const LAST_SPANS_MS = 2_000;

/** A running service. */
export class App {
  readonly #parts: AppParts;
  readonly #grpc: GrpcServer;
  readonly #pages: OpenPages;
  readonly grpcPort: number;
  readonly httpPort: number;
  /** The ports of the debug pages and of the metrics' second address; undefined where nothing listens. */
  readonly debugPort: number | undefined;
  readonly metricsPort: number | undefined;

  constructor(parts: AppParts, grpc: GrpcServer, pages: OpenPages) {
    this.#parts = parts;
    this.#grpc = grpc;
    this.#pages = pages;
    this.grpcPort = grpc.port;
    this.httpPort = pages.httpPort;
    this.debugPort = pages.side.debugPort;
    this.metricsPort = pages.side.metricsPort;
  }

  /** Reads the rule files now, whether or not the watcher has seen a change. */
  async reload(): Promise<void> {
    await this.#parts.reloader.reload();
  }

  /**
   * Stops in order: reports that the process is not ready; with `delays`, serves for SHUTDOWN_DELAY more; lets calls under way finish
   * for at most SHUTDOWN_GRACE; writes the last snapshot.
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
    for (const watch of running.watches) clearInterval(watch);
    calls.unmatched.tell(rareLog);
    running.tls?.close();
    // No call is under way any more, so this snapshot is exact.
    await closeSnapshots(snapshots, settings);
    await store.close();
    await running.statsd?.close();
    await running.traces?.close(LAST_SPANS_MS);
    await this.#parts.decisionLog?.close();
    rareLog.flush();
  }
}

/**
 * Builds the service and starts to listen. If the store is away or rules can't be used, the process starts all the same, is not
 * ready, and says why. Rejects with ConfigError if a port is taken or certificates can't be used.
 */
export async function startApp(options: AppOptions): Promise<App> {
  const parts = buildAppParts(options);
  const { running, reloader, snapshots, store } = parts;
  const begun: Begun = {};
  try {
    return await start(parts, begun);
  } catch (error) {
    for (const watch of running.watches) clearInterval(watch);
    reloader.close();
    running.tls?.close();
    await Promise.all([
      begun.pages?.admin.close(0),
      begun.pages?.side.close(0),
      running.statsd?.close(),
      running.traces?.close(0),
    ]);
    await snapshots?.abandon();
    await store.close();
    throw error;
  }
}

/** What a start has opened so far; closed if the start fails. */
interface Begun {
  pages?: OpenPages;
}

async function start(parts: AppParts, begun: Begun): Promise<App> {
  const { settings, health, reloader, store, storeHealth, snapshots, logger } = parts;
  parts.running.traces = await openTraces(parts);
  // Removed only when calls are answered, even if everything else is well before that.
  health.setTrouble("start", "the process is starting: its gRPC port does not listen yet");
  health.setTrouble("rules", "the rule files have not been read yet");
  const pages = await openAdmin(parts);
  begun.pages = pages;
  const { httpPort, side } = pages;
  // Before any bucket key is hashed, because a snapshot brings the key of the hash function. /livez answers meanwhile.
  await openSnapshots(snapshots);
  await reloader.start();
  showRulesHealth(parts);
  await warmUpCalls(parts.clock);
  await watchStore(parts);
  if (storeHealth.trouble() === undefined) await warmUpStore(store);
  const grpc = await openGrpc(parts, httpPort);
  health.setTrouble("start", undefined);
  const listening = settings.grpcUnixSocket ?? `${settings.grpcHost}:${grpc.port}`;
  const { debugPort: debug, metricsPort: metrics } = side;
  // With several workers the supervisor logs this line, once for all.
  if (parts.link === undefined) {
    logger.info(
      { grpc: listening, http: `${settings.httpHost}:${httpPort}`, store: settings.backendType, debug, metrics },
      "listening",
    );
  }
  return new App(parts, grpc, pages);
}
