// Writes calls to a file as they pass: JSON lines, gzip if the name ends in .gz. docs/mirror.md describes the format;
// read-recording.ts reads it. Holds the messages of requests and when they came; no metadata, because that may hold secrets.

import { type FileHandle, open } from "node:fs/promises";
import { promisify } from "node:util";
import { crc32, gzip } from "node:zlib";
import type { Clock } from "../core/clock.ts";
import { ConfigError } from "../core/errors.ts";
import { isoTime } from "../core/units.ts";
import type { CallRecorder } from "./mirror.ts";

export const RECORDING_VERSION = 2;
/** Lines that wait for the disk, in bytes; what comes beyond that is left out. */
const BACKLOG_BYTES_MAX = 8_388_608;
/** Lines go to the file at least this often: what a killed process loses. */
const WRITE_MS = 500;
/** So many bytes of lines go to the file at once, without waiting. */
const WRITE_BYTES = 262_144;

const compressed = promisify<Buffer, Buffer>(gzip);

interface RecordingOptions {
  readonly file: string;
  /** Most bytes of lines; in a compressed file fewer arrive on disk. */
  readonly bytesMax: number;
  readonly clock: Clock;
  /** Told once why no more calls are written: the disk is full or failed, or the file has reached `bytesMax`. */
  readonly onEnded?: (why: string) => void;
}

/** Lines that go to the file together. */
interface Batch {
  text: string;
  calls: number;
}

/**
 * Writes calls to a file as they pass. A full disk or a full file ends the recording, never a call. Each write to a
 * compressed file is a gzip member of its own, so all that was written before can be read whatever comes later.
 */
export class Recording implements CallRecorder {
  readonly file: string;
  readonly #options: RecordingOptions;
  readonly #handle: FileHandle;
  readonly #isCompressed: boolean;
  readonly #startUs: number;
  readonly #timer: NodeJS.Timeout;
  #waiting: Batch = { text: "", calls: 0 };
  #writing: Promise<void> | undefined;
  #writingBytes = 0;
  #isFull = false;
  /** Calls that are in the file. */
  calls = 0;
  /** Bytes of lines that are in the file or wait for it. */
  bytes = 0;
  /** Calls that are not in the file: it was full, the disk too slow, or writing failed. */
  leftOut = 0;
  /** Why writing failed; undefined if it did not. */
  failure: string | undefined;

  private constructor(options: RecordingOptions, handle: FileHandle) {
    this.file = options.file;
    this.#options = options;
    this.#handle = handle;
    this.#isCompressed = options.file.endsWith(".gz");
    this.#startUs = options.clock.nowUs();
    this.#timer = setInterval(() => this.#writeSoon(), WRITE_MS).unref();
    const startedAt = isoTime(this.#startUs);
    this.#add(`${JSON.stringify({ headgate_recording: RECORDING_VERSION, started_at: startedAt })}\n`);
    this.#writeSoon();
  }

  /** Opens a new file, readable by its owner alone. Throws ConfigError if there is one already or it can't be written. */
  static async open(options: RecordingOptions): Promise<Recording> {
    try {
      return new Recording(options, await open(options.file, "wx", 0o600));
    } catch (cause) {
      const { code, message } = cause as NodeJS.ErrnoException;
      const why = code === "EEXIST" ? "it exists already; name another" : message;
      throw new ConfigError("CONFIG_SETTINGS", `can't record to ${options.file}: ${why}`);
    }
  }

  record(message: Buffer): void {
    if (this.failure !== undefined || this.#isFull) {
      this.leftOut++;
      return;
    }
    const line = recordedLine(this.#options.clock.nowUs() - this.#startUs, message.toString("base64"));
    if (this.bytes + line.length > this.#options.bytesMax) {
      this.#isFull = true;
      this.leftOut++;
      this.#options.onEnded?.(`the recording ${this.file} has reached its bound of ${this.#options.bytesMax} bytes`);
      return;
    }
    if (this.#waiting.text.length + this.#writingBytes + line.length > BACKLOG_BYTES_MAX) {
      this.leftOut++;
      return;
    }
    this.#add(line);
    this.#waiting.calls++;
    if (this.#waiting.text.length >= WRITE_BYTES) this.#writeSoon();
  }

  /** Writes what is left and closes the file. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    while (this.#writing !== undefined || this.#waiting.text !== "") {
      this.#writeSoon();
      await this.#writing;
    }
    // Some file systems report only here that what was written did not arrive.
    await this.#handle.close().catch((error: Error) => this.#fail(error));
  }

  #add(line: string): void {
    this.#waiting.text += line;
    this.bytes += line.length;
  }

  #writeSoon(): void {
    if (this.#writing !== undefined || this.#waiting.text === "") return;
    const batch = this.#waiting;
    this.#waiting = { text: "", calls: 0 };
    this.#writingBytes = batch.text.length;
    this.#writing = this.#write(batch).finally(() => {
      this.#writing = undefined;
      this.#writingBytes = 0;
      if (this.#waiting.text.length >= WRITE_BYTES) this.#writeSoon();
    });
  }

  async #write({ text, calls }: Batch): Promise<void> {
    try {
      if (this.failure !== undefined) throw new Error(this.failure);
      const bytes = Buffer.from(text, "latin1");
      await this.#handle.writeFile(this.#isCompressed ? await compressed(bytes) : bytes);
      this.calls += calls;
    } catch (error) {
      this.leftOut += calls;
      this.#fail(error as Error);
    }
  }

  #fail({ message }: Error): void {
    if (this.failure !== undefined) return;
    this.failure = message;
    this.#options.onEnded?.(`writing the recording ${this.file} failed: ${message}`);
  }
}

/** A line of the file. Its checksum covers time and message, so that a damaged line can't pass as another call. */
export function recordedLine(atUs: number, base64: string): string {
  return `{"at_us":${atUs},"message":"${base64}","crc32":${checksumOf(atUs, base64)}}\n`;
}

/** CRC-32, as gzip has it, of the time in decimal, a blank, and the message in base64. */
export function checksumOf(atUs: number, base64: string): number {
  return crc32(`${atUs} ${base64}`);
}
