// Records calls in a file: JSON lines, compressed by gzip if the name ends in .gz. docs/mirror.md describes the format,
// read-recording.ts reads it. It contains the messages of requests and their times, but no gRPC metadata, which may
// contain secrets.

import { type FileHandle, open } from "node:fs/promises";
import { promisify } from "node:util";
import { crc32, gzip } from "node:zlib";
import type { Clock } from "../../base/clock.ts";
import { ConfigError } from "../../base/errors.ts";
import { errorCode, fileTrouble } from "../../base/thrown.ts";
import { isoTime } from "../../base/units.ts";
import { LineQueue } from "./line-queue.ts";

export const RECORDING_VERSION = 2;
/** Most bytes of lines that wait for the disk; calls beyond are left out. */
const BACKLOG_BYTES_MAX = 8_388_608;

const compressed = promisify<Buffer, Buffer>(gzip);

interface RecordingOptions {
  readonly file: string;
  /** Most bytes of lines before compression. */
  readonly bytesMax: number;
  readonly clock: Clock;
  /**
   * Called once when recording ends early, with the reason: the disk failed or is full, or the file has reached
   * `bytesMax`.
   */
  readonly onEnded?: (why: string) => void;
}

/**
 * A recording. A full disk or a full file ends the recording and affects no call. Each write to a compressed file is a
 * gzip member of its own, so that everything written can be read even if a later write fails.
 */
export class Recording {
  readonly file: string;
  readonly #options: RecordingOptions;
  readonly #handle: FileHandle;
  readonly #isCompressed: boolean;
  readonly #startUs: number;
  readonly #queue = new LineQueue(BACKLOG_BYTES_MAX, (text, calls) => this.#write(text, calls));
  #isFull = false;
  /** Number of calls in the file. */
  calls = 0;
  /** Bytes of lines, before compression, that are written or wait to be written. */
  bytes = 0;
  /**
   * Number of calls that are not in the file: it was full, the disk too slow, writing failed, or the call was no plain
   * message.
   */
  leftOut = 0;
  /** Why writing failed; undefined if it did not. */
  failure: string | undefined;

  private constructor(options: RecordingOptions, handle: FileHandle) {
    this.file = options.file;
    this.#options = options;
    this.#handle = handle;
    this.#isCompressed = options.file.endsWith(".gz");
    this.#startUs = options.clock.nowUs();
  }

  /** Creates a file that only its owner can read. Throws ConfigError if the file exists or can't be written. */
  static async open(options: RecordingOptions): Promise<Recording> {
    try {
      const recording = new Recording(options, await open(options.file, "wx", 0o600));
      const startedAt = isoTime(recording.#startUs);
      const head = `${JSON.stringify({ headgate_recording: RECORDING_VERSION, started_at: startedAt })}\n`;
      recording.bytes = head.length;
      await recording.#write(head, 0);
      return recording;
    } catch (cause) {
      const why = errorCode(cause) === "ENOENT" ? "its folder does not exist" : fileTrouble(cause);
      throw new ConfigError("CONFIG_SETTINGS", `can't record to ${options.file}: ${why}`);
    }
  }

  /** Never throws. */
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
    if (this.#queue.add(line)) this.bytes += line.length;
    else this.leftOut++;
  }

  /** Writes the remaining lines and closes the file. Never rejects: failures are in `failure`. */
  async close(): Promise<void> {
    await this.#queue.close();
    // Some file systems report failed writes only on close.
    await this.#handle.close().catch((error: Error) => this.#fail(error));
  }

  async #write(text: string, calls: number): Promise<void> {
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

/** A line of the file. The checksum covers time and message, so that a damaged line is detected. */
export function recordedLine(atUs: number, base64: string): string {
  return `{"at_us":${atUs},"message":"${base64}","crc32":${checksumOf(atUs, base64)}}\n`;
}

/** CRC-32 (as in gzip) of the time in decimal, a blank, and the message in base64. */
export function checksumOf(atUs: number, base64: string): number {
  return crc32(`${atUs} ${base64}`);
}
