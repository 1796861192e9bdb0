// Reads recordings, which recording.ts writes, and reports damaged lines.

import { ConfigError } from "../../base/errors.ts";
import { readRecord } from "../../base/is-record.ts";
import { type LineOptions, readLines } from "../../base/read-lines.ts";
import { MICROS_PER_MILLI, TIME_US_MAX } from "../../base/units.ts";
import { checksumOf, RECORDING_VERSION } from "./recording.ts";

/** A recorded call. */
export interface RecordedCall {
  /** When it came, in microseconds since the Unix epoch. */
  readonly atUs: number;
  /** The message of the request, without framing and compression. */
  readonly message: Buffer;
}

/**
 * Reads the calls of a file in order, some at a time. Lines may end in LF or CRLF. Throws ConfigError if the file is no
 * recording, or with the number of a damaged line. A last line without a line feed is left out, because a killed
 * process may leave one.
 */
export async function* readRecording(
  file: string,
  options: Pick<LineOptions, "onCutOff"> = {},
): AsyncGenerator<readonly RecordedCall[]> {
  let number = 0;
  let startedUs = 0;
  for await (const lines of readLines(file, { ...options, fail })) {
    const calls: RecordedCall[] = [];
    for (const line of lines) {
      if (number++ === 0) startedUs = startOf(file, line);
      else calls.push(readCall(line, startedUs) ?? fail(file, `line ${number} is damaged: expected a recorded call`));
    }
    yield calls;
  }
  if (number === 0) fail(file, "it is empty");
}

/** Reads the first line. Throws ConfigError unless it begins a recording of this version. */
function startOf(file: string, line: string): number {
  const head = readRecord(line);
  const found = head?.headgate_recording;
  if (found === undefined) fail(file, `its first line is not {"headgate_recording":${RECORDING_VERSION},...}`);
  if (found !== RECORDING_VERSION)
    fail(file, `it has format ${String(found)}; this version reads ${RECORDING_VERSION}`);
  const startedUs = Date.parse(String(head?.started_at)) * MICROS_PER_MILLI;
  return startedUs >= 0 ? startedUs : fail(file, "its first line has no time since 1970 as started_at");
}

// The checksum covers time and message.
function readCall(line: string, startedUs: number): RecordedCall | undefined {
  const { at_us: passedUs, message, crc32 } = readRecord(line) ?? {};
  if (typeof passedUs !== "number" || !(passedUs >= 0) || typeof message !== "string") return undefined;
  if (checksumOf(passedUs, message) !== crc32) return undefined;
  const atUs = startedUs + Math.floor(passedUs);
  const bytes = Buffer.from(message, "base64");
  return atUs <= TIME_US_MAX && bytes.toString("base64") === message ? { atUs, message: bytes } : undefined;
}

function fail(file: string, why: string): never {
  throw new ConfigError("CONFIG_SETTINGS", `can't read the recording ${file}: ${why}`);
}
