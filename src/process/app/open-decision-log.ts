// Opens the decision log that the settings ask for: in the process's log, or in a rotating file of its own.

import { DecisionLog } from "../../operate/telemetry/decision-log.ts";
import type { RateLimitedLog } from "../../operate/telemetry/rate-limited-log.ts";
import { RotatingFile } from "../../operate/telemetry/rotating-file.ts";
import type { AppOptions } from "./app-options.ts";

/** The log, and what closes its file; undefined if DECISION_LOG is off. A file that can't be written is reported in the log and delays no call. */
export function openDecisionLog({ settings, clock, logger }: AppOptions, rareLog: RateLimitedLog) {
  const { decisionLog: kind, decisionLogShare: share, decisionLogRate: linesPerSecond } = settings;
  if (kind === "off") return undefined;
  const bounds = { kind, share, linesPerSecond, clock };
  if (settings.decisionLogFile === undefined) {
    // Who asks for decisions gets them, whatever LOG_LEVEL leaves out.
    const lines = logger.child({}, { level: "info" });
    const log: DecisionLog = new DecisionLog({
      ...bounds,
      write: (_, fields) => {
        lines.info(fields, "decision");
        log.noteEnd(1, 0);
        return true;
      },
    });
    return { log, close: () => Promise.resolve() };
  }
  const path = settings.decisionLogFile;
  const log: DecisionLog = new DecisionLog({ ...bounds, write: (line) => file.write(line) });
  const file = new RotatingFile({
    file: path,
    bytesMax: settings.decisionLogBytesMax,
    filesMax: settings.decisionLogFilesMax,
    onTrouble: (message) =>
      rareLog.warn("decision log", "the decision log can't be written", () => ({ path, message })),
    onEnd: (written, lost) => log.noteEnd(written, lost),
  });
  return { log, close: () => file.close() };
}
