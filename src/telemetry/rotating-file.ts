// Lines to a file that is never longer than it may be: full ones are renamed to `file.1`, `file.2` and so on, the oldest goes.

import { type FileHandle, open, rename, rm } from "node:fs/promises";

/** Lines that wait for the disk, in characters; what comes beyond that is left out. */
const BACKLOG_CHARS_MAX = 4_194_304;
/** Lines go to the file at least this often: what a killed process loses. */
const WRITE_MS = 500;

interface RotatingFileOptions {
  readonly file: string;
  readonly bytesMax: number;
  /** Files in all, the one that is written to included; at least 1. */
  readonly filesMax: number;
  /** Told each time that writing fails; it is tried again with the next lines. */
  readonly onTrouble: (message: string) => void;
}

/** Writes lines beside whatever else the process does, readable by its owner alone. */
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

  /** Takes a line without its line feed. False if the disk is too far behind. */
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

  /** Appends whole lines, as many as a file takes, then goes on in the next. */
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

  /** Where the last line ends that the file has room for; a line that is longer than a file has one of its own. */
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
