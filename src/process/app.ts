// Composition root: has app/ build the parts of a process, starts them and stops them in order. main.ts decides when.

import { START } from "../base/health.ts";
import { openTraces } from "../operate/telemetry/traces/open-traces.ts";
import type { AppOptions } from "./app/app-options.ts";
import { type AppParts, buildAppParts, showRulesHealth } from "./app/app-parts.ts";
import { openAdmin, openGrpc } from "./app/open-ports.ts";
import { closeSnapshots, openSnapshots } from "./app/open-snapshots.ts";
import { openStatsd } from "./app/open-statsd.ts";
import { watchStore } from "./app/store-watch.ts";
import { warmUpCalls, warmUpStore } from "./app/warm-up.ts";
import { sayListening } from "./say-listening.ts";

/** Longest time, in milliseconds, to send the last spans at shutdown; no call waits for them. */
const LAST_SPANS_MS = 2_000;

/** Closes what is open. */
async function close(
  { running, reloader, presence, runtimeLimits, store, decisionLog }: AppParts,
  graceMs: number,
  lastSpansMs: number,
): Promise<void> {
  reloader.close();
  await presence.close();
  await runtimeLimits.sync.close();
  await running.grpc?.drain(graceMs);
  await Promise.all(running.pages.map((server) => server.close(graceMs)));
  for (const watch of running.watches) clearInterval(watch);
  running.tls?.close();
  await store.close();
  await running.statsd?.close();
  await running.traces?.close(lastSpansMs);
  await decisionLog?.close();
}

/**
 * Builds the service and starts to listen. If the store is away or rules can't be used, the process starts all the
 * same, is not ready, and says why. Rejects with ConfigError if a port is taken or certificates can't be used.
 */
export async function startApp(options: AppOptions) {
  const parts = await buildAppParts(options);
  try {
    return await start(parts);
  } catch (error) {
    await parts.snapshots?.abandon();
    await close(parts, 0, 0);
    throw error;
  }
}

async function start(parts: AppParts) {
  const { settings, health, reloader, presence, runtimeLimits, store, storeHealth, snapshots, logger } = parts;
  await openSnapshots(snapshots, settings);
  parts.running.statsd = await openStatsd(parts);
  parts.running.traces = await openTraces(parts);
  // Removed only when calls are answered, even if everything else is well before that.
  health.setTrouble(START, "the process is starting: its gRPC port does not listen yet");
  health.setTrouble("rules", "the rule files have not been read yet");
  const pages = await openAdmin(parts);

  await reloader.start();
  showRulesHealth(parts);
  await warmUpCalls(parts.clock);
  await watchStore(parts);
  await runtimeLimits.sync.start();
  await presence.start();
  if (storeHealth.trouble() === undefined) await warmUpStore(store);
  const grpc = await openGrpc(parts, pages.http ?? 0);
  health.setTrouble(START, undefined);
  sayListening(settings, { ...pages, grpc: grpc.port }, logger);
  return {
    grpcPort: grpc.port,
    httpPort: pages.http ?? 0,
    /** The ports of the debug pages and of the metrics' second address; undefined where nothing listens. */
    debugPort: pages.debug,
    metricsPort: pages.metrics,
    /** Reads the rule files now, whether or not the watcher has seen a change, and opens a rotated decision log. */
    reload: () => {
      parts.decisionLog?.reopen();
      return reloader.reload();
    },
    /**
     * Stops in order: reports that the process is not ready; with `delays`, serves for SHUTDOWN_DELAY more; lets calls
     * under way finish for at most SHUTDOWN_GRACE.
     */
    stop: ({ delays }: { readonly delays: boolean } = { delays: true }) => stop(parts, delays),
  };
}

async function stop(parts: AppParts, delays: boolean): Promise<void> {
  const { settings, health, rareLog, calls } = parts;
  health.setTrouble("shutdown", "the process is shutting down");
  if (delays && settings.shutdownDelayMs > 0)
    await new Promise((resolve) => setTimeout(resolve, settings.shutdownDelayMs));
  await close(parts, settings.shutdownGraceMs, LAST_SPANS_MS);
  await closeSnapshots(parts.snapshots, settings);
  calls.domains.tell(rareLog);
  rareLog.flush();
}
