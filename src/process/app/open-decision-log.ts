// Opens the decision log that the settings ask for: in the process's log, in a rotating file of its own, or in a pipe or a device.

import { statSync } from "node:fs";
import { ConfigError } from "../../base/errors.ts";
import type { LogFields } from "../../base/log.ts";
import { errorMessage } from "../../base/thrown.ts";
import { DecisionLog } from "../../operate/telemetry/decision-log.ts";
import { LogOutput } from "../../operate/telemetry/log-output.ts";
import type { RateLimitedLog } from "../../operate/telemetry/rate-limited-log.ts";
import { RotatingFile } from "../../operate/telemetry/rotating-file.ts";
import type { AppOptions } from "./app-options.ts";

/**
 * The log, how many lines its own file has lost, and a function that closes that file; undefined if DECISION_LOG is off. Logs that a file
 * can't be written, and delays no call then. Throws ConfigError if a pipe or a device can't be opened.
 */
export function openDecisionLog(options: AppOptions, rareLog: RateLimitedLog) {
  const { settings, clock, logger } = options;
  const {
    decisionLog: kind,
    decisionLogShare: share,
    decisionLogRate: linesPerSecond,
    decisionLogFile: path,
  } = settings;
  if (kind === "off") return undefined;
  const bounds = { kind, share, linesPerSecond, clock };
  if (path !== undefined && !isSpecial(path)) {
    let lost = 0;
    const log: DecisionLog = new DecisionLog({ ...bounds, write: (line) => file.write(line) });
    const file = new RotatingFile({
      file: path,
      bytesMax: settings.decisionLogBytesMax,
      filesMax: settings.decisionLogFilesMax,
      onTrouble: (message) =>
        rareLog.warn("decision log", "the decision log can't be written", () => ({ path, message })),
      onEnd: (written, lostNow) => {
        lost += lostNow;
        log.noteEnd(written, lostNow);
      },
    });
    return { log, lost: () => lost, close: () => file.close() };
  }
  const output = path === undefined ? options.logOutput : openSpecial(path, options);
  // DECISION_LOG outweighs LOG_LEVEL.
  const lines = logger.child({}, { level: "info" });
  const put = (line: string, fields: LogFields): void =>
    path === undefined ? lines.info(fields, "decision") : output?.write(`${line}\n`);
  const noteEnd = (isWritten: boolean) => log.noteEnd(isWritten ? 1 : 0, isWritten ? 0 : 1);
  const write = (line: string, fields: LogFields): boolean => {
    if (output !== undefined) output.watch(() => put(line, fields), noteEnd);
    else {
      put(line, fields);
      noteEnd(true);
    }
    return true;
  };
  const log = new DecisionLog({ ...bounds, write });
  const own = output === options.logOutput ? undefined : output;
  return { log, lost: () => own?.dropped ?? 0, close: () => own?.close(LAST_LINES_MS) };
}

/** Longest time, in milliseconds, to write the last lines to a pipe. */
const LAST_LINES_MS = 500;
/** Paths of what the process already has open. */
const OWN = /^\/(?:dev\/(?:fd\/(\d+)|(stdout)|(stderr))|proc\/self\/fd\/(\d+))$/;

/** Whether the path names something that can't be renamed, so it is not rotated. */
function isSpecial(path: string): boolean {
  if (/^\/(?:dev|proc)\//.test(path)) return true;
  const found = statSync(path, { throwIfNoEntry: false });
  return found !== undefined && !found.isFile();
}

function openSpecial(path: string, { logOutput }: AppOptions): LogOutput {
  const [own, fd, isOut, isErr, self] = OWN.exec(path) ?? [];
  const number = isOut !== undefined ? 1 : isErr !== undefined ? 2 : Number(fd ?? self);
  try {
    if (own === undefined) return LogOutput.open(path);
    return number === 1 && logOutput !== undefined ? logOutput : new LogOutput(number);
  } catch (cause) {
    throw new ConfigError("CONFIG_SETTINGS", `DECISION_LOG_FILE: can't write to ${path}: ${errorMessage(cause)}`);
  }
}
