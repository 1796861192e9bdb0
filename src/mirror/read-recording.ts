// Reads a file that recording.ts wrote, line by line, and says which line is damaged.

import { createReadStream } from "node:fs";
import type { Readable, Writable } from "node:stream";
import { createGunzip, constants as zlib } from "node:zlib";
import { ConfigError } from "../core/errors.ts";
import { checksumOf, RECORDING_VERSION } from "./recording.ts";

/** Longest line that is read: a message of 4 MiB in base64, and its frame. */
const LINE_BYTES_MAX = 6_000_000;
const LINE_FEED = 10;
/** What some editors put before text in UTF-8, byte by byte. */
const BYTE_ORDER_MARK = "\xef\xbb\xbf";

/** A recorded call. */
export interface RecordedCall {
  /** Microseconds since the recording began. */
  readonly atUs: number;
  /** The request's message, unframed and uncompressed. */
  readonly message: Buffer;
}

/**
 * Reads the calls of a file in order, whether its lines end in LF or CRLF. Throws ConfigError, naming the line, if it is no
 * recording or holds a damaged line; a last line without its line feed is left out, because that is how a killed process leaves its file.
 */
export async function* readRecording(file: string): AsyncGenerator<RecordedCall> {
  let number = 0;
  for await (const line of linesOf(file)) {
    number++;
    if (number === 1) checkHead(file, line);
    else
      yield parseLine(line) ?? fail(file, `line ${number} is damaged: no recorded call with the checksum of its own`);
  }
  if (number === 0) fail(file, "it is empty");
}

/** The whole lines of the file. */
async function* linesOf(file: string): AsyncGenerator<string> {
  const disk = createReadStream(file);
  const input: Readable = file.endsWith(".gz") ? createGunzip({ finishFlush: zlib.Z_SYNC_FLUSH }) : disk;
  if (input !== disk) {
    disk.on("error", (error) => input.destroy(error));
    disk.pipe(input as Writable & Readable);
  }
  let number = 1;
  let rest: Buffer[] = [];
  let restBytes = 0;
  try {
    for await (const chunk of input as AsyncIterable<Buffer>) {
      let start = 0;
      for (let end = chunk.indexOf(LINE_FEED); end >= 0; end = chunk.indexOf(LINE_FEED, start)) {
        rest.push(chunk.subarray(start, end));
        yield Buffer.concat(rest).toString("latin1");
        number++;
        rest = [];
        restBytes = 0;
        start = end + 1;
      }
      rest.push(chunk.subarray(start));
      restBytes += chunk.length - start;
      if (restBytes > LINE_BYTES_MAX) fail(file, `line ${number} is longer than ${LINE_BYTES_MAX} bytes`);
    }
  } catch (cause) {
    if (cause instanceof ConfigError) throw cause;
    const why = cause instanceof Error ? cause.message : String(cause);
    fail(file, number === 1 ? why : `${why}, in or after line ${number}`);
  } finally {
    disk.destroy();
    input.destroy();
  }
}

function checkHead(file: string, line: string): void {
  const head = parseJson(line.startsWith(BYTE_ORDER_MARK) ? line.slice(BYTE_ORDER_MARK.length) : line) as
    | { headgate_recording?: unknown }
    | undefined;
  const found = head?.headgate_recording;
  if (found === RECORDING_VERSION) return;
  if (found === undefined) fail(file, `its first line is not {"headgate_recording":${RECORDING_VERSION},...}`);
  fail(file, `it has format ${String(found)}; this version reads ${RECORDING_VERSION}`);
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
