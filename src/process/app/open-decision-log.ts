// Opens the decision log that the settings ask for: in the process's log, or in a file, a pipe or a device of its own.

import { ConfigError } from "../../base/errors.ts";
import type { LogFields } from "../../base/log.ts";
import { errorMessage } from "../../base/thrown.ts";
import { DecisionLog } from "../../operate/telemetry/decision-log.ts";
import { LogOutput } from "../../operate/telemetry/log-output.ts";
import type { RateLimitedLog } from "../../operate/telemetry/rate-limited-log.ts";
import type { AppOptions } from "./app-options.ts";

/** Longest time, in milliseconds, to write the last lines. */
const LAST_LINES_MS = 500;
/** Paths of what the process already has open. */
const OWN = /^\/(?:dev\/(?:fd\/(\d+)|(stdout)|(stderr))|proc\/self\/fd\/(\d+))$/;

/**
 * The log, how many lines its own file has lost, and functions that reopen and close that file; undefined if
 * DECISION_LOG is off. Logs that a file can't be written, and delays no call then. Throws ConfigError if it can't be
 * opened.
 */
export function openDecisionLog(options: AppOptions, rareLog: RateLimitedLog) {
  const { settings, clock, logger, logOutput } = options;
  const { decisionLog: kind, decisionLogRate: linesPerSecond, decisionLogFile: path } = settings;
  if (kind === "off") return undefined;
  const output = path === undefined ? logOutput : openOutput(path, options, rareLog);
  // DECISION_LOG outweighs LOG_LEVEL.
  const lines = logger.child({}, { level: "info" });
  const write = (line: string, fields: LogFields): boolean => {
    if (path !== undefined) return output?.write(`${line}\n`) ?? false;
    const before = logOutput?.dropped;
    lines.info(fields, "decision");
    return logOutput?.dropped === before;
  };
  const own = output === logOutput ? undefined : output;
  return {
    log: new DecisionLog({ kind, linesPerSecond, clock, write }),
    lost: () => own?.dropped ?? 0,
    reopen: () => own?.reopen(),
    close: () => own?.close(LAST_LINES_MS),
  };
}

function openOutput(path: string, { logOutput }: AppOptions, rareLog: RateLimitedLog): LogOutput {
  const warn = ({ message }: Error) =>
    rareLog.warn("decision log", "the decision log can't be written", () => ({ path, message }));
  const [own, fd, isOut, isErr, self] = OWN.exec(path) ?? [];
  const number = isOut !== undefined ? 1 : isErr !== undefined ? 2 : Number(fd ?? self);
  try {
    if (own === undefined) return LogOutput.open(path, warn);
    return number === 1 && logOutput !== undefined ? logOutput : LogOutput.of(number, warn);
  } catch (cause) {
    throw new ConfigError("CONFIG_SETTINGS", `DECISION_LOG_FILE: can't write to ${path}: ${errorMessage(cause)}`);
  }
}
