// Opens the decision log that the settings ask for: to the process's log, or to a file of its own that rotates.

import type { Clock } from "../core/clock.ts";
import type { Settings } from "../settings.ts";
import { DecisionLog } from "../telemetry/decision-log.ts";
import type { Logger } from "../telemetry/logger.ts";
import type { RateLimitedLog } from "../telemetry/rate-limited-log.ts";
import { RotatingFile } from "../telemetry/rotating-file.ts";

/** A decision log and what it writes to. */
export interface OpenDecisionLog {
  readonly log: DecisionLog;
  close(): Promise<void>;
}

interface DecisionLogParts {
  readonly settings: Settings;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly rareLog: RateLimitedLog;
  /** Number of the worker, if there are several: each writes a file of its own. */
  readonly worker: number | undefined;
}

/** Undefined if DECISION_LOG is off. A file that can't be written is told of in the log, and holds up nothing. */
export function openDecisionLog({
  settings,
  clock,
  logger,
  rareLog,
  worker,
}: DecisionLogParts): OpenDecisionLog | undefined {
  const { decisionLog: kind, decisionLogShare: share, decisionLogRate: linesPerSecond } = settings;
  if (kind === "off") return undefined;
  const bounds = { kind, share, linesPerSecond, clock };
  if (settings.decisionLogFile === undefined) {
    const log = new DecisionLog({
      ...bounds,
      write: (_, fields) => {
        logger.info(fields, "decision");
        return true;
      },
    });
    return { log, close: () => Promise.resolve() };
  }
  const path = fileOfWorker(settings.decisionLogFile, worker);
  const file = new RotatingFile({
    file: path,
    bytesMax: settings.decisionLogBytesMax,
    filesMax: settings.decisionLogFilesMax,
    onTrouble: (message) =>
      rareLog.warn("decision log", "the decision log can't be written", () => ({ path, message })),
  });
  return { log: new DecisionLog({ ...bounds, write: (line) => file.write(line) }), close: () => file.close() };
}

/** `decisions.jsonl` of worker 2 is `decisions.2.jsonl`. */
function fileOfWorker(path: string, worker: number | undefined): string {
  if (worker === undefined) return path;
  const at = /\.[^./\\]*$/.exec(path)?.index ?? path.length;
  return `${path.slice(0, at)}.${worker}${path.slice(at)}`;
}
