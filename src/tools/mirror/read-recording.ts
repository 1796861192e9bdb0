// Reads recordings, which recording.ts writes, and reports damaged lines.

import { ConfigError } from "../../engine/base/errors.ts";
import { readRecord } from "../../engine/base/is-record.ts";
import { type LineOptions, readLines } from "./file-lines.ts";
import { checksumOf, RECORDING_VERSION } from "./recording.ts";

/** A recorded call. */
export interface RecordedCall {
  /** Microseconds since the recording began. */
  readonly atUs: number;
  /** The message of the request, without framing and compression. */
  readonly message: Buffer;
}

/**
 * Reads the calls of a file in order, some at a time, with the time in microseconds since the Unix epoch at which the recording began, if
 * its first line has a valid one. Lines may end in LF or CRLF. Throws ConfigError if it is no recording, or with the number of a
 * damaged line. A last line without a line feed is left out, because a killed process may leave one.
 */
export async function* readRecording(
  file: string,
  options: Pick<LineOptions, "onCutOff"> = {},
): AsyncGenerator<{ readonly startedUs: number | undefined; readonly calls: readonly RecordedCall[] }> {
  let number = 0;
  let startedUs: number | undefined;
  for await (const lines of readLines(file, { ...options, fail })) {
    const calls: RecordedCall[] = [];
    for (const line of lines) {
      number++;
      if (number === 1) startedUs = startOf(file, line);
      else
        calls.push(
          parseLine(line) ?? fail(file, `line ${number} is damaged: no recorded call with the checksum of its own`),
        );
    }
    yield { startedUs, calls };
  }
  if (number === 0) fail(file, "it is empty");
}

/** Reads the first line. Throws ConfigError if it is not that of a recording, or of one of another version. */
function startOf(file: string, line: string): number | undefined {
  const head = readRecord(line);
  const found = head?.headgate_recording;
  if (found === undefined) fail(file, `its first line is not {"headgate_recording":${RECORDING_VERSION},...}`);
  if (found !== RECORDING_VERSION)
    fail(file, `it has format ${String(found)}; this version reads ${RECORDING_VERSION}`);
  const startedMs = Date.parse(String(head?.started_at));
  return Number.isNaN(startedMs) ? undefined : startedMs * 1_000;
}

function parseLine(line: string): RecordedCall | undefined {
  const { at_us: atUs, message, crc32 } = readRecord(line) ?? {};
  if (typeof atUs !== "number" || !(atUs >= 0) || typeof message !== "string") return undefined;
  if (checksumOf(atUs, message) !== crc32) return undefined;
  const bytes = Buffer.from(message, "base64");
  return bytes.toString("base64") === message ? { atUs, message: bytes } : undefined;
}

function fail(file: string, why: string): never {
  throw new ConfigError("CONFIG_SETTINGS", `can't read the recording ${file}: ${why}`);
}
