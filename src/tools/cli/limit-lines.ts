// Files of limits at run time: JSON objects a line, as `headgate limits export` writes them, or CSV.

import { createReadStream } from "node:fs";
import { createInterface } from "node:readline";
import { csvReader } from "../../base/csv-rows.ts";
import { ConfigError, RequestError } from "../../base/errors.ts";
import { errorCode, fileTrouble, unlessThrown } from "../../base/thrown.ts";
import { readTyped } from "../../engine/domain/entry-text.ts";
import { readAskedLimit } from "../../operate/http/read-asked-limit.ts";
import type { PlacedLimit } from "../simulate/simulated-limits.ts";
import { askedDescriptor } from "./admin-call.ts";

/** A line of a file. */
export interface LimitLine extends PlacedLimit {
  /** What PUT /limits takes, unless `asked` is an error. */
  readonly limit: unknown;
}

/** Reads a file, `-` for standard input. Throws ConfigError if that fails; a line that can't be read has an error. */
export async function readLimits(file: string): Promise<readonly LimitLine[]> {
  const lines: LimitLine[] = [];
  let readRow: ReturnType<typeof csvReader> | undefined;
  let number = 0;
  try {
    const input = file === "-" ? process.stdin : createReadStream(file);
    for await (const line of createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY })) {
      const at = `${file}:${++number}`;
      if (line.trim() === "") continue;
      if (line.startsWith("{")) lines.push(placed(at, () => unlessThrown(SyntaxError, () => JSON.parse(line))));
      else if (readRow === undefined) readRow = csvReader(line);
      else {
        const row = readRow(line);
        lines.push(placed(at, () => limitOfRow(row)));
      }
    }
  } catch (cause) {
    if (errorCode(cause) === undefined) throw cause;
    throw new ConfigError("CONFIG_SETTINGS", `can't read ${file}: ${fileTrouble(cause)}`);
  }
  return lines;
}

/** A limit of that place, checked as PUT /limits checks it; `read` throws a RequestError if it can't be read. */
export function placed(at: string, read: () => unknown): LimitLine {
  try {
    const limit = read();
    return { at, limit, asked: readAskedLimit(limit, "limit", false) };
  } catch (error) {
    if (error instanceof RequestError) return { at, limit: undefined, asked: error };
    throw error;
  }
}

const NUMBERS = ["requests_per_unit", "burst", "until_seconds"];

/** Columns are members of PUT /limits, with a descriptor as it is typed for `entries`. */
function limitOfRow(row: Readonly<Record<string, unknown>> | undefined): object {
  if (row === undefined) throw new RequestError("REQUEST_BODY", "expected quotes that are closed");
  const { descriptor, ...cells } = row;
  const entries = readTyped(String(descriptor ?? "").trim());
  if (typeof entries === "string") throw new RequestError("REQUEST_BODY", `descriptor: ${entries}`);
  const members = Object.entries(cells).map(([name, cell]) => [name, cellValue(name, String(cell ?? "").trim())]);
  return { ...Object.fromEntries(members), ...askedDescriptor(entries) };
}

function cellValue(name: string, text: string): unknown {
  if (text === "") return undefined;
  if (NUMBERS.includes(name)) return Number(text);
  return text === "true" || text === "false" ? text === "true" : text;
}
