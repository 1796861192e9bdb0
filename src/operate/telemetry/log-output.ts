// Where lines of the log go: standard output, or what DECISION_LOG_FILE names. Lines are written in the background, so
// a pipe that nobody reads, a full disk or a file that hangs costs lines, never a call: what waits is bounded, what is
// beyond is dropped and counted.

import { once } from "node:events";
import { constants, fstatSync, openSync, statSync } from "node:fs";
import { Socket } from "node:net";
import { waitAtMost } from "../../base/wait-at-most.ts";
import { FileLines, type Lines, type OnTrouble } from "./file-lines.ts";

/** Bytes of lines that wait for a reader; further lines are dropped. */
const BACKLOG_BYTES_MAX = 1_048_576;

export class LogOutput {
  readonly #lines: Lines;
  /** Lines that were lost since the start. */
  dropped = 0;

  private constructor(linesOf: (onLost: () => void) => Lines) {
    this.#lines = linesOf(() => this.dropped++);
  }

  /** Writes to what the process has open. */
  static of(fd: number, onTrouble: OnTrouble = () => undefined): LogOutput {
    // As bigint, because Node.js's realpath reads the numbers of the last stat: after those of a pipe it would not
    // follow the links of modules (node_modules of pnpm, workspaces).
    const kind = fstatSync(fd, { bigint: true });
    // A thread that waits in a write to a full pipe would keep the process from ending. A socket writes what there is
    // room for.
    if (kind.isFIFO() || kind.isSocket()) return new LogOutput((onLost) => toSocket(fd, onLost));
    return new LogOutput(() => new FileLines(fd, onTrouble));
  }

  /** Opens a file, a pipe or a device by its path. Throws what `open` throws; a pipe must have a reader. */
  static open(path: string, onTrouble: OnTrouble): LogOutput {
    const isFile = statSync(path, { throwIfNoEntry: false })?.isFile() ?? true;
    if (isFile) return new LogOutput(() => FileLines.open(path, onTrouble));
    return LogOutput.of(openSync(path, constants.O_WRONLY | constants.O_APPEND | constants.O_NONBLOCK), onTrouble);
  }

  /** Takes a line with its line feed; returns false if it is dropped. Never throws. */
  write(line: string): boolean {
    const isTaken = this.#lines.write(line);
    if (!isTaken) this.dropped++;
    return isTaken;
  }

  /** Opens a file again by its path. */
  reopen(): void {
    this.#lines.reopen();
  }

  /** Waits at most this long for lines to be written. */
  async close(graceMs: number): Promise<void> {
    await this.#lines.close(graceMs);
  }
}

function toSocket(fd: number, onLost: () => void): Lines {
  const socket = new Socket({ fd, readable: false, writable: true });
  // Each line that can't be written is counted.
  socket.on("error", () => undefined);
  return {
    write(line) {
      if (socket.destroyed || socket.writableLength + line.length > BACKLOG_BYTES_MAX) return false;
      socket.write(line, (error) => {
        if (error) onLost();
      });
      return true;
    },
    reopen: () => undefined,
    async close(graceMs) {
      if (!socket.destroyed && socket.writableLength > 0) {
        const ended = Promise.race([once(socket, "drain"), once(socket, "close")]);
        await waitAtMost(graceMs, ended).catch(() => undefined);
      }
      // What is left would keep the process.
      socket.destroy();
    },
  };
}
