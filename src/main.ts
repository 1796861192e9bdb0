#!/usr/bin/env node
// Process entry: gives the command line its `serve`, and turns signals into reloads and an orderly end. Only `serve`
// loads the app.

import "./process/quick-start.ts";
import { readFileSync } from "node:fs";
import { DayClock, SystemClock } from "./base/clock.ts";
import { ConfigError } from "./base/errors.ts";
import { visibleLines } from "./base/visible.ts";
import type { Logger } from "./operate/telemetry/logger.ts";
import { openLog } from "./process/open-log.ts";
import { startSmall } from "./process/quick-start.ts";
import { deleteSecrets, readSettings, type Settings } from "./settings/settings.ts";

const { version } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8")) as {
  version: string;
};

/** Longest time, in milliseconds, to write the last lines of the log: nobody may read them. */
const LAST_LINES_MS = 500;

/** Longest time, in milliseconds, that the process lasts when everything has ended. */
const HUNG_MS = 2_000;

/** What signals act on. */
interface Running {
  reload(): Promise<unknown>;
  stop(how: { readonly delays: boolean }): Promise<void>;
}

/** Serves until SIGTERM or SIGINT. A second one ends the process at once. */
async function serve(): Promise<void> {
  const hasStarted = startSmall();
  const env = { ...process.env };
  if (process.stdout.isTTY) env.LOG_FORMAT ||= "text";
  const settings = readSettings(env);
  deleteSecrets();
  const clock = new SystemClock();
  const { logger, logOutput } = openLog(settings, new DayClock(clock));
  for (const warning of settings.warnings) logger.warn(warning);
  if (settings.servesExamples)
    logger.warn({ rules: settings.rulesDir }, "RULES_DIR is not set: example rules are served");
  let running: Running | undefined;
  // Before the process shows that it runs: without a handler a signal would kill it.
  const asked = askedToEnd();
  process.on("SIGHUP", () => {
    logger.info("SIGHUP: reloading rule files");
    void running?.reload();
  });
  const start = async (): Promise<Running> => {
    const { startApp } = await import("./process/app.ts");
    return startApp({ settings, clock, logger, logOutput, version });
  };
  const first = await Promise.race([start(), asked]);
  if (typeof first === "string") {
    // No caller is served yet, and a start may wait long for a store or for rules.
    logger.info({ signal: first }, "stopped during startup");
    await logOutput.close(LAST_LINES_MS);
    process.exit(0);
  }
  running = first;
  hasStarted();
  const signal = await asked;
  await end(running, signal, { settings, logger });
  await logOutput.close(LAST_LINES_MS);
  leaveHungWrites(signal);
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
  const delayMs = signal === "SIGTERM" ? settings.shutdownDelayMs : 0;
  const further = delayMs > 0 ? `, serving for another ${delayMs / 1_000} s (SHUTDOWN_DELAY)` : "";
  logger.info({ signal }, `shutting down${further}`);
  for (const again of ["SIGTERM", "SIGINT"] as const) process.once(again, () => process.exit(1));
  // SIGINT comes from a person at a terminal: no load balancer has to notice first.
  await running.stop({ delays: signal === "SIGTERM" });
  logger.info("done");
  leaveTraces(settings);
}

/** A write to a file that hangs keeps the process, even from process.exit(). A signal that nobody handles ends it. */
function leaveHungWrites(signal: NodeJS.Signals): void {
  const leave = () => {
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  };
  setTimeout(leave, HUNG_MS).unref();
}

/**
 * Exits although OpenTelemetry's exporter may still retry: the exporter has no way to end a retry, and it keeps the
 * process.
 */
function leaveTraces({ traces }: Settings): void {
  if (traces !== undefined) setTimeout(() => process.exit(), 100).unref();
}

try {
  // The service alone needs no parser of command lines.
  if (process.argv.length === 3 && process.argv[2] === "serve") await serve();
  else {
    const { runCommandLine } = await import("./tools/cli/program.ts");
    const checkStart = async () => (await import("./process/app/check-start.ts")).checkStart(process.env, version);
    await runCommandLine({ serve, checkStart, version }, process.argv);
  }
} catch (error) {
  if (!(error instanceof ConfigError)) throw error;
  process.stderr.write(`${error.code}: ${visibleLines(error.message)}\n`);
  // What a failed start has opened could keep the process alive, serving nothing.
  process.exit(1);
}
