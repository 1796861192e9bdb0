// Writes lines to a file of bounded length: a full file is renamed to `file.1`, `file.2` and so on; the oldest is removed.

import { type FileHandle, open, rename, rm } from "node:fs/promises";

/** Characters that may wait for the disk; further lines are left out. */
const BACKLOG_CHARS_MAX = 4_194_304;
/** Lines are written at least this often, so a killed process loses no more than these milliseconds. */
const WRITE_MS = 500;

interface RotatingFileOptions {
  readonly file: string;
  readonly bytesMax: number;
  /** Number of files, the current one included; at least 1. */
  readonly filesMax: number;
  /** Told of each failed write. Its lines are lost; the next lines are tried again. */
  readonly onTrouble: (message: string) => void;
}

/** Writes lines in the background, to a file that only its owner can read. */
export class RotatingFile {
  readonly #options: RotatingFileOptions;
  readonly #timer: NodeJS.Timeout;
  #handle: FileHandle | undefined;
  #size = 0;
  #waiting = "";
  #writing: Promise<void> | undefined;

  constructor(options: RotatingFileOptions) {
    this.#options = options;
    this.#timer = setInterval(() => this.#writeSoon(), WRITE_MS).unref();
  }

  /** Takes a line without its line feed; returns false if too much waits for the disk. */
  write(line: string): boolean {
    if (this.#waiting.length + line.length > BACKLOG_CHARS_MAX) return false;
    this.#waiting += `${line}\n`;
    return true;
  }

  /** Writes what is left and closes the file. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#writing;
    this.#writeSoon();
    await this.#writing;
    await this.#handle?.close();
    this.#handle = undefined;
  }

  #writeSoon(): void {
    if (this.#writing !== undefined || this.#waiting === "") return;
    const text = this.#waiting;
    this.#waiting = "";
    this.#writing = this.#write(text)
      .catch((error: Error) => this.#options.onTrouble(error.message))
      .finally(() => {
        this.#writing = undefined;
      });
  }

  /** Appends as many whole lines as the file has room for, then continues in a new file. */
  async #write(text: string): Promise<void> {
    let rest = Buffer.from(text);
    while (rest.length > 0) {
      const handle = await this.#opened();
      const end = this.#endOf(rest);
      if (end === 0) {
        await this.#rotate(handle);
        continue;
      }
      await handle.appendFile(rest.subarray(0, end));
      this.#size += end;
      rest = rest.subarray(end);
    }
  }

  /** End of the last line that fits into the file. A line longer than a whole file gets an empty file to itself. */
  #endOf(bytes: Buffer): number {
    const room = this.#options.bytesMax - this.#size;
    if (bytes.length <= room) return bytes.length;
    const end = room <= 0 ? 0 : bytes.lastIndexOf(0x0a, room - 1) + 1;
    return end === 0 && this.#size === 0 ? bytes.indexOf(0x0a) + 1 : end;
  }

  async #opened(): Promise<FileHandle> {
    if (this.#handle === undefined) {
      const handle = await open(this.#options.file, "a", 0o600);
      this.#size = (await handle.stat()).size;
      this.#handle = handle;
    }
    return this.#handle;
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
