// Files of limits at run time: JSON objects a line, as `headgate limits export` writes them, or CSV.

import { createReadStream } from "node:fs";
import { createInterface } from "node:readline";
import { ConfigError, RequestError } from "../../engine/base/errors.ts";
import { isRecord } from "../../engine/base/is-record.ts";
import { errorCode, fileTrouble, unlessThrown } from "../../engine/base/thrown.ts";
import { readTyped } from "../../engine/domain/entry-text.ts";
import { readAskedLimit } from "../../operate/http/read-asked-limit.ts";
import type { PlacedLimit } from "../simulate/simulated-limits.ts";
import { csvReader } from "../simulate/sources/csv-rows.ts";
import { askedDescriptor } from "./admin-call.ts";
import { parseUntil } from "./limits-text.ts";

/** A line of the file. */
export interface LimitLine {
  readonly number: number;
  /** As PUT /limits takes it; text says why the line can't be read. */
  readonly limit: object | string;
}

/** The limits of the file, and what is wrong with those that can't be read. Throws ConfigError if the file can't be. */
export async function readLimits(file: string): Promise<readonly PlacedLimit[]> {
  const limits: PlacedLimit[] = [];
  try {
    for await (const { number, limit } of limitLines(file))
      limits.push({ at: `${file}:${number}`, asked: askedOf(limit) });
  } catch (cause) {
    if (errorCode(cause) === undefined) throw cause;
    throw new ConfigError("CONFIG_SETTINGS", `can't read ${file}: ${fileTrouble(cause)}`);
  }
  return limits;
}

/** The limit as PUT /limits reads it, or why it can't be read. */
export function askedOf(limit: object | string): PlacedLimit["asked"] {
  if (typeof limit === "string") return new RequestError("REQUEST_BODY", limit);
  try {
    return readAskedLimit(limit, "limit", false);
  } catch (error) {
    if (error instanceof RequestError) return error;
    throw error;
  }
}

/** The lines of the file; of one that can't be read, why not. */
export async function* limitLines(file: string): AsyncGenerator<LimitLine> {
  const input = file === "-" ? process.stdin : createReadStream(file);
  let readRow: ReturnType<typeof csvReader> | undefined;
  let number = 0;
  for await (const line of createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY })) {
    number++;
    if (line.trim() === "") continue;
    if (line.startsWith("{")) yield { number, limit: readJson(line) };
    else if (readRow === undefined) readRow = csvReader(line);
    else {
      const row = readRow(line);
      yield { number, limit: row === undefined ? "expected quotes that are closed" : readCsv(row) };
    }
  }
}

function readJson(line: string): object | string {
  const value: unknown = unlessThrown(SyntaxError, () => JSON.parse(line));
  return isRecord(value) ? value : "expected a JSON object";
}

const COLUMNS = [
  "domain",
  "descriptor",
  "limit",
  "requests",
  "unit",
  "burst",
  "use",
  "block",
  "exempt",
  "until",
  "note",
];

function readCsv(row: Readonly<Record<string, unknown>>): object | string {
  const unknown = Object.keys(row).find((name) => !COLUMNS.includes(name));
  if (unknown !== undefined) return `expected columns ${COLUMNS.join(", ")}, got '${unknown}'`;
  const text = (name: string) => String(row[name] ?? "").trim();
  const entries = readTyped(text("descriptor"));
  if (typeof entries === "string") return `descriptor: ${entries}`;
  const given = (name: string) => text(name) || undefined;
  const whole = (name: string) => (given(name) === undefined ? undefined : Number(text(name)));
  const flag = (name: string) => (text(name) === "false" ? undefined : text(name) === "true" || given(name));
  try {
    const until = text("until") === "" ? {} : parseUntil(text("until"));
    return {
      domain: text("domain"),
      ...askedDescriptor(entries),
      limit: given("limit"),
      requests_per_unit: whole("requests"),
      unit: given("unit"),
      burst: whole("burst"),
      use: given("use"),
      block: flag("block"),
      exempt: flag("exempt"),
      ...until,
      note: given("note"),
    };
  } catch (cause) {
    return `until: ${cause instanceof Error ? cause.message : "expected an end"}`;
  }
}
