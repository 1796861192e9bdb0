// Keeps limits at run time in a file (LIMITS_CACHE): a head line, then a line for each. A process that starts while its
// store is away has the last ones, and with the memory store the file is all that outlives the process.

import { readFile } from "node:fs/promises";
import type { Log } from "../../base/log.ts";
import { errorCode, errorMessage } from "../../base/thrown.ts";
import { isoTime } from "../../base/units.ts";
import { type KeptLimit, keep } from "../../engine/runtime/runtime-limit.ts";
import type { RuntimeTable } from "../../engine/runtime/runtime-table.ts";
import { replaceFile } from "../files/replace-file.ts";

/** The `format` of the head line. */
const FORMAT = "headgate limits 1";

/** The limits of the file, in no order; undefined if there is no file, or if it can't be used, which is logged. */
export async function readLimitsFile(path: string, log: Pick<Log, "warn">): Promise<readonly KeptLimit[] | undefined> {
  try {
    return readLimits(await readFile(path, "utf8"));
  } catch (cause) {
    if (errorCode(cause) !== "ENOENT")
      log.warn({ file: path, reason: errorMessage(cause) }, "can't read the limits in LIMITS_CACHE");
    return undefined;
  }
}

/** Replaces the file by what the table has. Rejects if it can't. */
export function writeLimitsFile(path: string, table: RuntimeTable, nowUs: number): Promise<void> {
  return replaceFile(path, linesOf(table, nowUs));
}

function readLimits(text: string): readonly KeptLimit[] {
  const [first = "", ...lines] = text.split("\n");
  if (!first.startsWith(`{"format":"${FORMAT}"`)) throw new Error(`expected a first line with format '${FORMAT}'`);
  const { count } = JSON.parse(first) as { count?: unknown };
  if (lines.pop() !== "" || lines.length !== count)
    throw new Error("it has fewer lines than it says: it was cut or changed");
  return lines.map((line, i) => {
    const [, atUs, key = "", value = ""] = /^(\d{1,16}) (\[.*\]) (\{.*\})$/.exec(line) ?? [];
    if (atUs === undefined) throw new Error(`expected a time, a key and a value in line ${i + 2}`);
    return keep(key, value, Number(atUs));
  });
}

/** What is readable; the rest would spoil the file. */
function* linesOf(table: RuntimeTable, nowUs: number): Generator<string> {
  const rows = [...table.entries()]
    .map(([, row]) => row)
    .filter(({ limit, parts }) => limit !== undefined && parts.length > 1);
  yield JSON.stringify({ format: FORMAT, saved_at: isoTime(nowUs), count: rows.length });
  for (const { atUs, key, value } of rows) yield `${atUs} ${key} ${value}`;
}
