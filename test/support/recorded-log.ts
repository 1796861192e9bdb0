// A log whose lines a test can read, and whose time it moves.

import { RateLimitedLog } from "../../src/operate/telemetry/rate-limited-log.ts";
import { ManualClock } from "./manual-clock.ts";

export function recordedLog() {
  const clock = new ManualClock();
  const lines: Record<string, unknown>[] = [];
  const write = (level: string) => (fields: object, message: string) => lines.push({ level, message, ...fields });
  const log = new RateLimitedLog({ info: write("info"), warn: write("warn"), error: write("error") }, clock);
  return { clock, lines, log };
}
