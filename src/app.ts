// Composition root: builds the parts of a process (app/), starts and stops them in order. main.ts decides when.

import type { AdminServer } from "./admin/server.ts";
import { openAdmin, openGrpc } from "./app/edges.ts";
import { type AppOptions, buildParts, type Parts, showRulesHealth } from "./app/parts.ts";
import { watchStore } from "./app/store-watch.ts";
import { warmUpCalls, warmUpStore } from "./app/warm-up.ts";
import type { GrpcServer } from "./transport/grpc-server.ts";

export type { AppOptions } from "./app/parts.ts";

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
    const { settings, health, reloader, running, store, rareLog } = this.#parts;
    health.setTrouble("shutdown", "the process is shutting down");
    if (delays && settings.shutdownDelayMs > 0)
      await new Promise((resolve) => setTimeout(resolve, settings.shutdownDelayMs));
    reloader.close();
    await this.#grpc.drain(settings.shutdownGraceMs);
    await this.#admin.close(settings.shutdownGraceMs);
    clearInterval(this.#storeWatch);
    running.tls?.close();
    await store.close();
    await running.statsd?.close();
    rareLog.flush();
  }
}

/**
 * Builds the service and has it listen. A store that is away and rules that can't be used don't keep it from starting:
 * it is not ready and says why. Throws ConfigError if a port is taken or certificates can't be used.
 */
export async function startApp(options: AppOptions): Promise<App> {
  const parts = buildParts(options);
  const { settings, health, reloader, store, logger } = parts;
  health.setTrouble("rules", "the rule files have not been read yet");
  const { admin, httpPort } = await openAdmin(parts);
  await reloader.start();
  showRulesHealth(parts);
  await warmUpCalls(parts.clock);
  const storeWatch = await watchStore(parts);
  if (store.trouble() === undefined) await warmUpStore(store);
  const grpc = await openGrpc(parts, httpPort).catch(async (error: unknown) => {
    clearInterval(storeWatch);
    reloader.close();
    await admin.close(0);
    await store.close();
    throw error;
  });
  const listening = settings.grpcUnixSocket ?? `${settings.grpcHost}:${grpc.port}`;
  logger.info({ grpc: listening, http: `${settings.httpHost}:${httpPort}`, store: settings.backendType }, "listening");
  return new App(parts, { grpc, admin, httpPort }, storeWatch);
}
