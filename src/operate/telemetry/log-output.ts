// Where lines of the log go: standard output, or what DECISION_LOG_FILE names if it is no ordinary file. A pipe that nobody reads
// costs lines, never a call: what waits for its reader is bounded, and what is beyond is dropped and counted.

import { constants, fstatSync, openSync } from "node:fs";
import { Socket } from "node:net";
import { destination } from "pino";
import { errorCode } from "../../base/thrown.ts";

/** Bytes of lines that wait for room; further lines are dropped. */
const BACKLOG_BYTES_MAX = 1_048_576;

type OnEnd = (isWritten: boolean) => void;

export class LogOutput {
  readonly #write: (line: string) => void;
  readonly #socket: Socket | undefined;
  /** Told of each line of `watch`. */
  #onEnd: OnEnd | undefined;
  /** Lines that were lost since the start. */
  dropped = 0;
  /** Why no line can be written any more; undefined if lines can be. */
  trouble: string | undefined;

  /** `fd` is open for writing. */
  constructor(fd: number) {
    // As bigint, because Node.js's realpath reads the numbers of the last stat: after those of a pipe it would not follow the links of
    // modules (node_modules of pnpm, workspaces).
    const kind = fstatSync(fd, { bigint: true });
    // A thread that waits in a write to a full pipe would keep the process from ending. A socket writes what there is room for.
    this.#socket = kind.isFIFO() || kind.isSocket() ? new Socket({ fd, readable: false, writable: true }) : undefined;
    this.#write = this.#socket === undefined ? this.#toFile(fd) : this.#toSocket(this.#socket);
  }

  /** Opens a pipe or a device by its path. Throws what `open` throws; a pipe must have a reader. */
  static open(path: string): LogOutput {
    return new LogOutput(openSync(path, constants.O_WRONLY | constants.O_APPEND | constants.O_NONBLOCK));
  }

  /** Takes a line with its line feed. Never throws. */
  write(line: string): void {
    this.#write(line);
  }

  /** Writes lines by `write`, and reports what became of each. */
  watch(write: () => void, onEnd: OnEnd): void {
    this.#onEnd = onEnd;
    write();
    this.#onEnd = undefined;
  }

  /** Waits at most this long for lines to be written, and drops the rest: it would keep the process alive. */
  async close(graceMs: number): Promise<void> {
    const socket = this.#socket;
    if (socket === undefined || socket.destroyed) return;
    if (socket.writableLength > 0) {
      await new Promise((resolve) => {
        socket.once("drain", resolve);
        socket.once("close", resolve);
        setTimeout(resolve, graceMs);
      });
    }
    socket.destroy();
  }

  #drop(onEnd: OnEnd | undefined): void {
    this.dropped++;
    onEnd?.(false);
  }

  // A line is written before the call returns. On a full disk the next ones wait for room.
  #toFile(fd: number): (line: string) => void {
    const output = destination({ dest: fd, sync: true, maxLength: BACKLOG_BYTES_MAX });
    let isDropped = false;
    output.on("error", () => undefined);
    output.on("drop", () => {
      isDropped = true;
    });
    return (line) => {
      isDropped = false;
      output.write(line);
      if (isDropped) this.#drop(this.#onEnd);
      else this.#onEnd?.(true);
    };
  }

  #toSocket(socket: Socket): (line: string) => void {
    socket.on("error", (error) => {
      this.trouble = errorCode(error) === "EPIPE" ? "nobody reads it any more (EPIPE)" : error.message;
    });
    return (line) => {
      const onEnd = this.#onEnd;
      if (socket.destroyed || socket.writableLength + line.length > BACKLOG_BYTES_MAX) return this.#drop(onEnd);
      socket.write(line, (error) => {
        if (error) this.#drop(onEnd);
        else onEnd?.(true);
      });
    };
  }
}
