// Reads a file that recording.ts wrote, line by line, and says which line is damaged.

import { ConfigError } from "../core/errors.ts";
import { readLines } from "./file-lines.ts";
import { checksumOf, RECORDING_VERSION } from "./recording.ts";

/** A recorded call. */
export interface RecordedCall {
  /** Microseconds since the recording began. */
  readonly atUs: number;
  /** The request's message, unframed and uncompressed. */
  readonly message: Buffer;
}

/** What the first line of a recording says. */
interface RecordingHead {
  /** When the recording began, in microseconds since the Unix epoch; undefined if the line names no time. */
  readonly startedUs: number | undefined;
}

/**
 * Reads the calls of a file in order, whether its lines end in LF or CRLF. Throws ConfigError, naming the line, if it is no
 * recording or holds a damaged line; a last line without its line feed is left out, because that is how a killed process leaves its file.
 */
export async function* readRecording(file: string): AsyncGenerator<RecordedCall> {
  let number = 0;
  for await (const lines of readLines(file, { fail })) {
    for (const line of lines) {
      number++;
      if (number === 1) parseHead(file, line);
      else yield parseCall(file, line, number);
    }
  }
  if (number === 0) fail(file, "it is empty");
}

/** Reads the first line of the file. Throws ConfigError if it is not a recording's, or one of another version. */
export function parseHead(file: string, line: string): RecordingHead {
  const head = parseJson(line) as { headgate_recording?: unknown; started_at?: unknown } | undefined;
  const found = head?.headgate_recording;
  if (found === undefined) fail(file, `its first line is not {"headgate_recording":${RECORDING_VERSION},...}`);
  if (found !== RECORDING_VERSION)
    fail(file, `it has format ${String(found)}; this version reads ${RECORDING_VERSION}`);
  const startedMs = Date.parse(String(head?.started_at));
  return { startedUs: Number.isNaN(startedMs) ? undefined : startedMs * 1_000 };
}

/** Reads line `number` of the file. Throws ConfigError if it is damaged. */
export function parseCall(file: string, line: string, number: number): RecordedCall {
  return parseLine(line) ?? fail(file, `line ${number} is damaged: no recorded call with the checksum of its own`);
}

function parseLine(line: string): RecordedCall | undefined {
  const { at_us: atUs, message, crc32 } = (parseJson(line) ?? {}) as Record<string, unknown>;
  if (typeof atUs !== "number" || !(atUs >= 0) || typeof message !== "string") return undefined;
  if (checksumOf(atUs, message) !== crc32) return undefined;
  const bytes = Buffer.from(message, "base64");
  return bytes.toString("base64") === message ? { atUs, message: bytes } : undefined;
}

function parseJson(line: string): object | undefined {
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === "object" && value !== null ? value : undefined;
  } catch (cause) {
    if (cause instanceof SyntaxError) return undefined;
    throw cause;
  }
}

function fail(file: string, why: string): never {
  throw new ConfigError("CONFIG_SETTINGS", `can't read the recording ${file}: ${why}`);
}
