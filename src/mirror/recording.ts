// A file of recorded calls: JSON lines, gzip if the name ends in .gz. docs/mirror.md describes the format.
// Holds the messages of requests and when they came; no metadata, because that may hold secrets.

import { createReadStream, createWriteStream, type WriteStream } from "node:fs";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { finished } from "node:stream/promises";
import { createGunzip, createGzip, constants as zlib } from "node:zlib";
import type { Clock } from "../core/clock.ts";
import { ConfigError } from "../core/errors.ts";
import type { CallRecorder } from "./mirror.ts";

const VERSION = 1;
/** Unwritten bytes that may wait for a slow disk; what comes then is left out. */
const BACKLOG_BYTES_MAX = 8_388_608;
/** Longest line that is read: a message of 4 MiB in base64, and its frame. */
const LINE_CHARS_MAX = 6_000_000;

/** A recorded call. */
export interface RecordedCall {
  /** Microseconds since the recording began. */
  readonly atUs: number;
  /** The request's message, unframed and uncompressed. */
  readonly message: Buffer;
}

export interface RecordingOptions {
  readonly file: string;
  /** Most bytes of lines; in a compressed file fewer arrive on disk. */
  readonly bytesMax: number;
  readonly clock: Clock;
}

/** Writes calls to a file as they pass. A full disk or a full file ends the recording, never a call. */
export class Recording implements CallRecorder {
  readonly file: string;
  readonly #options: RecordingOptions;
  readonly #output: Writable;
  readonly #disk: WriteStream;
  readonly #startUs: number;
  calls = 0;
  bytes = 0;
  /** Calls that are not in the file: it was full, the disk too slow, or writing failed. */
  leftOut = 0;
  /** Why writing failed; undefined if it did not. */
  failure: string | undefined;

  private constructor(options: RecordingOptions, disk: WriteStream) {
    this.file = options.file;
    this.#options = options;
    this.#disk = disk;
    this.#startUs = options.clock.nowUs();
    this.#output = options.file.endsWith(".gz") ? createGzip() : disk;
    for (const stream of new Set([this.#output, disk])) {
      stream.on("error", (error: Error) => {
        this.failure ??= error.message;
      });
    }
    if (this.#output !== disk) this.#output.pipe(disk);
    const startedAt = new Date(this.#startUs / 1_000).toISOString();
    this.#write(`${JSON.stringify({ headgate_recording: VERSION, started_at: startedAt })}\n`);
  }

  /** Opens a new file, readable by its owner alone. Throws ConfigError if there is one already or it can't be written. */
  static async open(options: RecordingOptions): Promise<Recording> {
    const disk = createWriteStream(options.file, { flags: "wx", mode: 0o600 });
    await new Promise<void>((resolve, reject) => {
      disk.once("open", () => resolve());
      disk.once("error", (cause: NodeJS.ErrnoException) => {
        const why = cause.code === "EEXIST" ? "it exists already; name another" : cause.message;
        reject(new ConfigError("CONFIG_SETTINGS", `can't record to ${options.file}: ${why}`));
      });
    });
    return new Recording(options, disk);
  }

  record(message: Buffer): void {
    const atUs = this.#options.clock.nowUs() - this.#startUs;
    const line = `{"at_us":${atUs},"message":"${message.toString("base64")}"}\n`;
    const isFull = this.bytes + line.length > this.#options.bytesMax;
    const isBehind = this.#output.writableLength + this.#disk.writableLength > BACKLOG_BYTES_MAX;
    if (isFull || isBehind || this.failure !== undefined) {
      this.leftOut++;
      return;
    }
    this.calls++;
    this.#write(line);
  }

  /** Writes what is left and closes the file. */
  async close(): Promise<void> {
    if (this.failure !== undefined) return;
    const closed = finished(this.#disk);
    this.#output.end();
    await closed.catch((error: Error) => {
      this.failure ??= error.message;
    });
  }

  #write(line: string): void {
    this.bytes += line.length;
    this.#output.write(line);
  }
}

/**
 * Reads the calls of a file in order. Throws ConfigError, naming the line, if it is no recording or holds a damaged
 * line; a last line that was cut off is left out, because that is how a killed process leaves its file.
 */
export async function* readRecording(file: string): AsyncGenerator<RecordedCall> {
  let number = 0;
  let cut: ConfigError | undefined;
  for await (const line of linesOf(file)) {
    if (cut !== undefined) throw cut;
    number++;
    if (number === 1) {
      checkHead(file, line);
      continue;
    }
    const call = parseLine(line);
    if (call === undefined) cut = notARecording(file, `line ${number} is no recorded call`);
    else yield call;
  }
  if (number === 0) throw notARecording(file, "it is empty");
}

async function* linesOf(file: string): AsyncGenerator<string> {
  const disk = createReadStream(file);
  const input: Readable = file.endsWith(".gz") ? createGunzip({ finishFlush: zlib.Z_SYNC_FLUSH }) : disk;
  if (input !== disk) {
    disk.on("error", (error) => input.destroy(error));
    disk.pipe(input as Writable & Readable);
  }
  const lines = createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY });
  try {
    for await (const line of lines) yield line;
    if (input.errored !== null) throw input.errored;
  } catch (cause) {
    throw notARecording(file, cause instanceof Error ? cause.message : String(cause));
  } finally {
    lines.close();
    disk.destroy();
  }
}

function checkHead(file: string, line: string): void {
  const head = parseJson(line) as { headgate_recording?: unknown } | undefined;
  if (head?.headgate_recording === VERSION) return;
  const found = head?.headgate_recording;
  if (found === undefined) throw notARecording(file, 'its first line is not {"headgate_recording":1,...}');
  throw notARecording(file, `it has format ${String(found)}; this version reads ${VERSION}`);
}

function parseLine(line: string): RecordedCall | undefined {
  if (line.length > LINE_CHARS_MAX) return undefined;
  const { at_us: atUs, message } = (parseJson(line) ?? {}) as { at_us?: unknown; message?: unknown };
  const isCall = typeof atUs === "number" && atUs >= 0 && typeof message === "string";
  return isCall ? { atUs, message: Buffer.from(message, "base64") } : undefined;
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

function notARecording(file: string, why: string): ConfigError {
  return new ConfigError("CONFIG_SETTINGS", `can't read the recording ${file}: ${why}`);
}
