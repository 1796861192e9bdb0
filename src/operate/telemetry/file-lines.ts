// Writes lines to a file or a device, one write at a time, in one of Node.js's own threads: a full disk or a file that
// hangs makes nobody wait. Only whole lines go to a file that is reopened.

import { close, constants, fstatSync, open, openSync, readSync, write, writeSync } from "node:fs";
import { waitAtMost } from "../../base/wait-at-most.ts";

/** Characters that wait; further lines are dropped. */
const BACKLOG_CHARS_MAX = 1_048_576;
/** How long after a failed write its bytes are tried again, in milliseconds. */
const RETRY_MS = 200;
/** Decisions name callers. */
const OWNER_ONLY = 0o600;
const LINE_FEED = 0x0a;

export type OnTrouble = (error: Error) => void;

/** A way to write lines. */
export interface Lines {
  /** Takes a line with its line feed; returns false if there is no room. Never throws. */
  write(line: string): boolean;
  /** Opens the file again by its path, for programs that rotate it. */
  reopen(): void;
  /** Waits at most this long for lines to be written. */
  close(graceMs: number): Promise<void>;
}

export class FileLines implements Lines {
  readonly #path: string | undefined;
  readonly #onTrouble: OnTrouble;
  #fd: number;
  /** The file that was opened in place of `#fd`. */
  #nextFd: number | undefined;
  /** Lines under way, without what is written. */
  #bytes = Buffer.alloc(0);
  /** Lines after these. */
  #text = "";
  #state: "idle" | "writing" | "failed" | "closed" = "idle";
  #retry: NodeJS.Timeout | undefined;
  /** Told when a write ends in another state than "writing". */
  #onRest: () => void = () => undefined;
  readonly #atExit = () => this.#writeRest();

  /** `path` is the file's, if it can be reopened. */
  constructor(fd: number, onTrouble: OnTrouble, path?: string) {
    this.#fd = fd;
    this.#onTrouble = onTrouble;
    this.#path = path;
    process.on("exit", this.#atExit);
  }

  /** Opens a file that grows. Throws what `open` throws. */
  static open(path: string, onTrouble: OnTrouble): FileLines {
    const fd = openSync(path, "a+", OWNER_ONLY);
    const lines = new FileLines(fd, onTrouble, path);
    if (endsWithinLine(fd)) lines.write("\n");
    return lines;
  }

  write(line: string): boolean {
    const isTaken =
      this.#state !== "closed" && this.#bytes.length + this.#text.length + line.length <= BACKLOG_CHARS_MAX;
    if (isTaken) this.#text += line;
    if (this.#state === "idle") this.#send();
    return isTaken;
  }

  reopen(): void {
    if (this.#path === undefined) return;
    open(this.#path, constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT, OWNER_ONLY, (error, fd) => {
      if (error) return this.#onTrouble(error);
      const unused = this.#state === "closed" ? fd : this.#nextFd;
      if (unused !== undefined) close(unused, () => undefined);
      this.#nextFd = unused === fd ? undefined : fd;
      if (this.#state === "idle") this.#useNext();
    });
  }

  async close(graceMs: number): Promise<void> {
    if (this.#state === "failed") this.#send();
    if (this.#state === "writing") {
      const rest = new Promise<void>((resolve) => {
        this.#onRest = resolve;
      });
      // A file that hangs stays open: closing it would hang, too.
      if (!(await waitAtMost(graceMs, rest))) return;
    }
    clearTimeout(this.#retry);
    if (this.#path === undefined) return;
    this.#useNext();
    this.#state = "closed";
    process.off("exit", this.#atExit);
    close(this.#fd, () => undefined);
  }

  #send(): void {
    clearTimeout(this.#retry);
    if (this.#bytes.length === 0) {
      this.#useNext();
      this.#bytes = Buffer.from(this.#text);
      this.#text = "";
    }
    if (this.#bytes.length === 0) {
      this.#rest("idle");
      return;
    }
    this.#state = "writing";
    write(this.#fd, this.#bytes, (error, written) => {
      this.#bytes = this.#bytes.subarray(written ?? 0);
      if (error === null) return this.#send();
      this.#rest("failed");
      this.#retry = setTimeout(() => this.#send(), RETRY_MS).unref();
      this.#onTrouble(error);
    });
  }

  #rest(state: "idle" | "failed"): void {
    this.#state = state;
    this.#onRest();
  }

  #useNext(): void {
    if (this.#nextFd === undefined) return;
    close(this.#fd, () => undefined);
    this.#fd = this.#nextFd;
    this.#nextFd = undefined;
  }

  // Of process.exit(), which waits for a write under way. A full disk does not take it.
  #writeRest(): void {
    const rest = [this.#state === "writing" ? Buffer.alloc(0) : this.#bytes, Buffer.from(this.#text)];
    try {
      writeSync(this.#fd, Buffer.concat(rest));
    } catch {
      // Nobody is left to hear of it.
    }
  }
}

/** A full disk or the end of a process may have cut the last line. */
function endsWithinLine(fd: number): boolean {
  const last = Buffer.alloc(1);
  const { size } = fstatSync(fd);
  return size > 0 && readSync(fd, last, 0, 1, size - 1) === 1 && last[0] !== LINE_FEED;
}
