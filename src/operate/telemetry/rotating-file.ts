// Writes lines to a file of bounded length: a full file is renamed to `file.1`, `file.2` and so on; the oldest is removed.

import { type FileHandle, open, rename, rm } from "node:fs/promises";
import { LineQueue } from "./line-queue.ts";

/** Characters that may wait for the disk; further lines are left out. */
const BACKLOG_CHARS_MAX = 4_194_304;
const LINE_FEED = 0x0a;

interface RotatingFileOptions {
  readonly file: string;
  readonly bytesMax: number;
  /** Number of files, the current one included; at least 1. */
  readonly filesMax: number;
  /** Called for each failed write. Its unwritten lines are lost; the next lines are tried again. */
  readonly onTrouble: (message: string) => void;
  /** Called after each write with the number of lines written and lost. */
  readonly onEnd: (written: number, lost: number) => void;
}

/** Writes lines in the background, to a file that only its owner can read. */
export class RotatingFile {
  readonly #options: RotatingFileOptions;
  readonly #queue = new LineQueue(BACKLOG_CHARS_MAX, (text) => this.#write(Buffer.from(text)));
  #handle: FileHandle | undefined;
  #size = 0;

  constructor(options: RotatingFileOptions) {
    this.#options = options;
  }

  /** Takes a line without its line feed; returns false if too much waits for the disk. */
  write(line: string): boolean {
    return this.#queue.add(`${line}\n`);
  }

  /** Writes what is left and closes the file. */
  async close(): Promise<void> {
    await this.#queue.close();
    await this.#handle?.close();
    this.#handle = undefined;
  }

  /** Appends as many whole lines as the file has room for, then continues in a new file. */
  async #write(bytes: Buffer): Promise<void> {
    let rest = bytes;
    try {
      while (rest.length > 0) {
        const handle = await this.#opened();
        let end = this.#endOf(rest);
        if (end === 0) await this.#rotate(handle);
        // A disk that is nearly full takes less than it is given.
        while (end > 0) {
          const { bytesWritten } = await handle.write(rest, 0, end);
          this.#size += bytesWritten;
          end -= bytesWritten;
          rest = rest.subarray(bytesWritten);
        }
      }
    } catch (error) {
      this.#options.onTrouble((error as Error).message);
      // Opened again, the file gets a line feed if its last line was cut.
      await this.#handle?.close().catch(() => undefined);
      this.#handle = undefined;
    }
    const lost = linesIn(rest);
    this.#options.onEnd(linesIn(bytes) - lost, lost);
  }

  /** End of the last line that fits into the file. A line longer than a whole file gets an empty file to itself. */
  #endOf(bytes: Buffer): number {
    const room = this.#options.bytesMax - this.#size;
    if (bytes.length <= room) return bytes.length;
    const end = room <= 0 ? 0 : bytes.lastIndexOf(LINE_FEED, room - 1) + 1;
    return end === 0 && this.#size === 0 ? bytes.indexOf(LINE_FEED) + 1 : end;
  }

  async #opened(): Promise<FileHandle> {
    if (this.#handle === undefined) {
      this.#handle = await open(this.#options.file, "a+", 0o600);
      this.#size = (await this.#handle.stat()).size;
      await this.#endLine(this.#handle);
    }
    return this.#handle;
  }

  // A full disk or the end of a process may have cut the last line.
  async #endLine(handle: FileHandle): Promise<void> {
    if (this.#size === 0) return;
    const { buffer } = await handle.read(Buffer.alloc(1), 0, 1, this.#size - 1);
    if (buffer[0] !== LINE_FEED) this.#size += (await handle.write("\n")).bytesWritten;
  }

  async #rotate(handle: FileHandle): Promise<void> {
    const { file, filesMax } = this.#options;
    this.#handle = undefined;
    await handle.close();
    if (filesMax === 1) {
      await rm(file, { force: true });
      return;
    }
    for (let number = filesMax - 1; number >= 1; number--) {
      const from = number === 1 ? file : `${file}.${number - 1}`;
      await rename(from, `${file}.${number}`).catch((error: NodeJS.ErrnoException) => {
        if (error.code !== "ENOENT") throw error;
      });
    }
  }
}

/** Number of lines that end in the bytes. */
function linesIn(bytes: Buffer): number {
  let lines = 0;
  for (let at = bytes.indexOf(LINE_FEED); at >= 0; at = bytes.indexOf(LINE_FEED, at + 1)) lines++;
  return lines;
}
