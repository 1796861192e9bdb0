// `headgate limits import`: reads a file line by line and sets what it says, some hundred lines at a time.

import { createReadStream } from "node:fs";
import { createInterface } from "node:readline";
import { isRecord } from "../../engine/base/is-record.ts";
import { fileTrouble, unlessThrown } from "../../engine/base/thrown.ts";
import { visible } from "../../engine/base/visible.ts";
import { readTyped } from "../../engine/domain/entry-text.ts";
import { csvReader } from "../simulate/sources/csv-rows.ts";
import { askAdmin, askedDescriptor } from "./admin-call.ts";
import {
  exitCodeOf,
  parseUntil,
  processesText,
  resultText,
  type ServerFlags,
  type SetAnswer,
  type SetResult,
} from "./limits-text.ts";
import { count, paint, type Terminal } from "./terminal.ts";

/** Lines of one request. */
const BATCH = 250;
/** Lines that are shown of those that were refused. */
const SHOWN_MAX = 20;

interface ImportFlags extends ServerFlags {
  readonly dryRun?: true;
}

interface Line {
  readonly number: number;
  readonly limit: object;
}

export async function importLimits(file: string, flags: ImportFlags, terminal: Terminal): Promise<void> {
  const refused: { readonly number: number; readonly result: SetResult | string }[] = [];
  let batch: Line[] = [];
  let done = 0;
  let processes: SetAnswer["processes"];
  const send = async (isLast: boolean): Promise<boolean> => {
    if (batch.length === 0) return true;
    const question = {
      limits: batch.map(({ limit }) => limit),
      wait: isLast,
      ...(flags.dryRun ? { dry_run: true } : {}),
    };
    const answer = await askAdmin<SetAnswer>(flags, "/limits", "limits", terminal, question, "PUT");
    if (answer === undefined) return false;
    for (const [i, result] of answer.limits.entries()) {
      if (exitCodeOf([result]) === 0) done++;
      else refused.push({ number: batch[i]?.number ?? 0, result });
    }
    processes = answer.processes;
    batch = [];
    return true;
  };
  try {
    for await (const line of linesOf(file)) {
      if (typeof line.limit === "string") refused.push({ number: line.number, result: line.limit });
      else {
        // Kept back until another one comes: the last batch waits for the processes.
        if (batch.length === BATCH && !(await send(false))) return terminal.setExitCode(2);
        batch.push({ number: line.number, limit: line.limit });
      }
    }
  } catch (cause) {
    terminal.err(`can't read ${visible(file)}: ${fileTrouble(cause)}\n`);
    return terminal.setExitCode(2);
  }
  if (!(await send(true))) return terminal.setExitCode(2);
  terminal.setExitCode(refused.length === 0 ? 0 : 1);
  for (const { number, result } of refused.slice(0, SHOWN_MAX)) {
    const text =
      typeof result === "string"
        ? `${paint(terminal, "red", "refused")}\n  ${visible(result)}\n`
        : resultText(result, terminal);
    terminal.err(`${visible(file)}:${number}: ${text}`);
  }
  if (refused.length > SHOWN_MAX) terminal.err(`and ${count(refused.length - SHOWN_MAX, "more line")} refused\n`);
  terminal.out(
    `${count(done, "limit")} ${flags.dryRun ? "would be set" : "set"}, ${refused.length} refused\n${processesText(processes, terminal)}`,
  );
}

/** The lines of the file; of one that can't be read, why not. */
async function* linesOf(file: string): AsyncGenerator<{ readonly number: number; readonly limit: object | string }> {
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
  return isRecord(value) ? withBytes(value) : "expected a JSON object";
}

/** Entries as lists show them, with both a value and its bytes, as they are asked for. */
function withBytes(value: Record<string, unknown>): object {
  const { entries } = value;
  if (!Array.isArray(entries)) return value;
  return {
    ...value,
    entries: entries.map((entry: unknown) =>
      isRecord(entry) && entry.valueBase64 !== undefined ? { key: entry.key, value_base64: entry.valueBase64 } : entry,
    ),
  };
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
