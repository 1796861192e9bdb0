#!/usr/bin/env node
// Process entry: hands the command line its `serve`, and turns signals into reloads and an orderly end.

import { readFileSync } from "node:fs";
import { type App, startApp } from "./app.ts";
import { buildProgram } from "./cli/program.ts";
import { SystemClock } from "./core/clock.ts";
import { ConfigError } from "./core/errors.ts";
import { readSettings, secretsOf } from "./settings.ts";
import { createLogger, type Logger } from "./telemetry/logger.ts";

const { version } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8")) as {
  version: string;
};

/** Serves until SIGTERM or SIGINT. A second signal ends the process at once. */
async function serve(): Promise<void> {
  const settings = readSettings(process.env);
  const clock = new SystemClock();
  const logger = createLogger({
    level: settings.logLevel,
    format: settings.logFormat,
    clock,
    secrets: secretsOf(settings),
  });
  for (const warning of settings.warnings) logger.warn(warning);
  let app: App | undefined;
  // Before anybody can know that the process is up: without a handler a signal would end it on the spot.
  const asked = askedToEnd();
  process.on("SIGHUP", () => {
    logger.info("SIGHUP: reading the rule files again");
    void app?.reload();
  });
  app = await startApp({ settings, clock, logger, version });
  await end(app, await asked, logger);
}

function askedToEnd(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    for (const signal of ["SIGTERM", "SIGINT"] as const) process.once(signal, () => resolve(signal));
  });
}

async function end(app: App, signal: NodeJS.Signals, logger: Logger): Promise<void> {
  logger.info({ signal }, "shutting down");
  for (const again of ["SIGTERM", "SIGINT"] as const) process.once(again, () => process.exit(1));
  // A person at a terminal does not wait for load balancers to notice.
  await app.stop({ delays: signal === "SIGTERM" });
  logger.info("done");
}

try {
  await buildProgram({ serve, version }).parseAsync(process.argv);
} catch (error) {
  if (!(error instanceof ConfigError)) throw error;
  process.stderr.write(`${error.code}: ${error.message}\n`);
  process.exitCode = 1;
}
