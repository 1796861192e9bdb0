#!/usr/bin/env node
// Process entry: gives the command line its `serve`, and turns signals into reloads and an orderly end. With WORKERS the first
// process is a supervisor: it runs this program once for each worker, and passes on what signals mean. Only a process that decides
// calls loads the app.

import "./process/quick-start.ts";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { type Clock, SystemClock } from "./engine/base/clock.ts";
import { ConfigError } from "./engine/base/errors.ts";
import { visibleLines } from "./engine/base/visible.ts";
import { createLogger, type Logger } from "./operate/telemetry/logger.ts";
import type { App } from "./process/app.ts";
import { startSmall } from "./process/quick-start.ts";
import { deleteSecrets, readSettings, type Settings, secretsOf } from "./process/settings.ts";
import { workerCountOf } from "./process/workers/core-count.ts";
import type { Supervisor } from "./process/workers/supervisor.ts";

const { version } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8")) as {
  version: string;
};

/** What signals act on: the service in this process, or the supervisor of several. */
interface Running {
  reload(): Promise<void>;
  stop(how: { readonly delays: boolean }): Promise<void>;
  /** Kills the processes that this one started. */
  kill?(): void;
}

/** Serves until SIGTERM or SIGINT. A second one ends the process at once. */
async function serve(): Promise<void> {
  const hasStarted = startSmall();
  const env = { ...process.env };
  const settings = readSettings(env);
  deleteSecrets();
  const clock = new SystemClock();
  const logger = loggerOf(settings, clock);
  for (const warning of settings.warnings) logger.warn(warning);
  let running: Running | undefined;
  // Installed before the process shows that it runs: without a handler a signal would kill it.
  const asked = askedToEnd();
  process.on("SIGHUP", () => {
    logger.info("SIGHUP: reading the rule files again");
    void running?.reload();
  });
  const count = workerCountOf(settings.workers);
  let supervisor: Supervisor | undefined;
  const start = async (): Promise<Running> => {
    if (count === 1) return (await import("./process/app.ts")).startApp({ settings, clock, logger, version });
    const { Supervisor } = await import("./process/workers/supervisor.ts");
    supervisor = new Supervisor({ settings, clock, logger, count, env, file: fileURLToPath(import.meta.url) });
    await supervisor.start();
    return supervisor;
  };
  const first = await Promise.race([start(), asked]);
  if (typeof first === "string") {
    // Nothing that was opened has callers yet, and a start may wait long for a store or for rules.
    logger.info({ signal: first }, "ended while starting");
    supervisor?.kill();
    process.exit(0);
  }
  running = first;
  hasStarted();
  await end(running, await asked, { settings, logger });
}

function askedToEnd(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    for (const signal of ["SIGTERM", "SIGINT"] as const) process.once(signal, () => resolve(signal));
  });
}

async function end(
  running: Running,
  signal: NodeJS.Signals,
  { settings, logger }: { readonly settings: Settings; readonly logger: Logger },
): Promise<void> {
  logger.info({ signal }, "shutting down");
  for (const again of ["SIGTERM", "SIGINT"] as const) {
    process.once(again, () => {
      running.kill?.();
      process.exit(1);
    });
  }
  // SIGINT comes from a person at a terminal, for whom no load balancer has to notice the end first.
  await running.stop({ delays: signal === "SIGTERM" });
  logger.info("done");
  leaveTraces(settings);
}

/** Exits although OpenTelemetry's exporter may still retry: the exporter has no way to end a retry, and it keeps the process. */
function leaveTraces({ traces }: Settings): void {
  if (traces !== undefined) setTimeout(() => process.exit(), 100).unref();
}

/** Runs one of several workers, until the supervisor says stop or is gone. */
async function work(): Promise<void> {
  // A terminal or systemd signals every process of the group, so a worker ignores signals: the supervisor passes on what is meant,
  // once and in order. Without a supervisor a signal is meant for this process.
  for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const) {
    process.on(signal, () => {
      if (process.connected !== true && signal !== "SIGHUP") process.exit(1);
    });
  }
  let app: App | undefined;
  let mustReload = false;
  let stop: (why: { readonly delays: boolean; readonly isAlone: boolean }) => void = () => undefined;
  const asked = new Promise<Parameters<typeof stop>[0]>((resolve) => {
    stop = resolve;
  });
  const { WorkerLink } = await import("./process/workers/worker-link.ts");
  const link = await WorkerLink.connect(process, {
    reload() {
      mustReload = app === undefined;
      void app?.reload();
    },
    stop: (delays) => stop({ delays, isAlone: false }),
    abandoned() {
      // During its start a worker has no calls under way, and without a supervisor it would never get to listen.
      if (app === undefined) process.exit(1);
      stop({ delays: false, isAlone: true });
    },
  });
  if (link === undefined) throw new ConfigError("CONFIG_SETTINGS", "workers are started by `headgate serve` alone");
  const settings = readSettings(process.env);
  deleteSecrets();
  const clock = new SystemClock();
  const logger = loggerOf(settings, clock, link.number);
  try {
    const { startApp } = await import("./process/app.ts");
    app = await startApp({ settings, clock, logger, version, link });
  } catch (error) {
    const isOurs = !(error instanceof ConfigError);
    await link.failed(error instanceof Error ? (isOurs && error.stack) || error.message : String(error), isOurs);
    process.exit(1);
  }
  if (mustReload) await app.reload();
  const { delays, isAlone } = await asked;
  if (isAlone) logger.error("the supervisor is gone; finishing what is under way");
  await app.stop({ delays });
  link.close();
  leaveTraces(settings);
}

function loggerOf(settings: Settings, clock: Clock, worker?: number): Logger {
  const { logLevel: level, logFormat: format } = settings;
  return createLogger({ level, format, clock, worker, secrets: secretsOf(settings) });
}

try {
  // The service alone needs no parser of command lines.
  if (process.argv.length === 3 && process.argv[2] === "serve") await serve();
  else {
    const { runCommandLine } = await import("./tools/cli/program.ts");
    await runCommandLine({ serve, work, version }, process.argv);
  }
} catch (error) {
  if (!(error instanceof ConfigError)) throw error;
  process.stderr.write(`${error.code}: ${visibleLines(error.message)}\n`);
  // Anything that a failed start has opened could keep the process alive, and it would serve nothing.
  process.exit(1);
}
