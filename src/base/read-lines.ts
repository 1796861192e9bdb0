// Reads the lines of a file, compressed or not, in chunks.

import { createReadStream } from "node:fs";
import type { Readable } from "node:stream";
import { setImmediate } from "node:timers/promises";
import { createGunzip } from "node:zlib";
import { ConfigError } from "./errors.ts";
import { fileTrouble } from "./thrown.ts";

/** Longest line: a message of 4 MiB in base64, and the JSON around it. */
const LINE_BYTES_MAX = 6_000_000;
const LINE_FEED = 10;
const BYTE_ORDER_MARK = Buffer.from("\ufeff");

export interface LineOptions {
  /** Called if the file can't be read; must throw. */
  readonly fail: (file: string, why: string) => never;
  /**
   * True: a last line without a line feed counts. Default: false, because a killed process may leave part of a line.
   */
  readonly keepsLastPart?: boolean;
  /**
   * Called if the last line has no line feed and does not count, or compressed data ends too early, with the number of
   * whole lines.
   */
  readonly onCutOff?: (lines: number) => void;
}

/**
 * Yields the lines in order, several at a time, without a byte order mark before the first. Files whose name ends in
 * .gz are decompressed.
 */
export async function* readLines(file: string, options: LineOptions): AsyncGenerator<readonly string[]> {
  const { fail, keepsLastPart = false, onCutOff } = options;
  const disk = createReadStream(file, { highWaterMark: 262_144 });
  const input = file.endsWith(".gz") ? unzipped(disk) : disk;
  let isCut = false;
  let number = 1;
  let rest: Buffer = Buffer.alloc(0);
  const textOf = (bytes: Buffer) => (number === 1 ? withoutMark(bytes) : bytes).toString();
  try {
    for await (const chunk of chunksOf(input, () => (isCut = true))) {
      const end = chunk.lastIndexOf(LINE_FEED);
      const whole = end < 0 ? undefined : Buffer.concat([rest, chunk.subarray(0, end)]);
      if (whole === undefined) rest = Buffer.concat([rest, chunk]);
      else {
        rest = Buffer.from(chunk.subarray(end + 1));
        const lines = textOf(whole).split("\n");
        yield lines;
        number += lines.length;
      }
      if (rest.length > LINE_BYTES_MAX) fail(file, `line ${number} is longer than ${LINE_BYTES_MAX} bytes`);
    }
    if (rest.length > 0 && keepsLastPart && !isCut) yield [textOf(rest)];
    else if (rest.length > 0 || isCut) onCutOff?.(number - 1);
  } catch (cause) {
    if (cause instanceof ConfigError) throw cause;
    const why = fileTrouble(cause);
    fail(file, number === 1 ? why : `${why}, in or after line ${number}`);
  } finally {
    disk.destroy();
    input.destroy();
  }
}

function withoutMark(bytes: Buffer): Buffer {
  return bytes.subarray(0, 3).equals(BYTE_ORDER_MARK) ? bytes.subarray(3) : bytes;
}

/** Calls `onCut` if compressed data ends too early. */
async function* chunksOf(input: Readable, onCut: () => void): AsyncGenerator<Buffer> {
  try {
    yield* input;
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== "Z_BUF_ERROR") throw cause;
    onCut();
  }
}

function unzipped(disk: Readable): Readable {
  const input = createGunzip();
  disk.on("error", (error) => input.destroy(error));
  disk.on("end", async () => {
    // Data that ends too early is an error, which would discard what was not read yet.
    while (input.writableLength + input.readableLength > 0 && !input.destroyed) await setImmediate();
    input.end();
  });
  return disk.pipe(input, { end: false });
}
