// Turns a line of the JSON log into one for people: time, level, message, then the other fields as key=value.

import { isRecord, readRecord } from "../../base/is-record.ts";
import { visible, visibleJson } from "../../base/visible.ts";

/** The line with its line feed; unchanged if it is not a JSON object. An error's stack follows on further lines. */
export function formatLogLine(json: string): string {
  const entry = readRecord(json);
  if (entry === undefined) return json;
  const { time, level, msg, err, ...fields } = entry;
  const shown = Object.entries(fields).map(([key, value]) => ` ${key}=${showValue(value)}`);
  const error = isRecord(err) ? err : undefined;
  if (error !== undefined) shown.push(` error=${showValue(error.message)}`);
  const head = `${String(time)} ${String(level).toUpperCase().padEnd(5)} ${visible(String(msg ?? ""))}`;
  return `${head}${shown.join("")}\n${showStack(error?.stack)}`;
}

function showValue(value: unknown): string {
  if (typeof value !== "string") return visibleJson(JSON.stringify(value) ?? "");
  return /^[\w./:@%+-]+$/.test(value) ? value : visibleJson(JSON.stringify(value));
}

function showStack(stack: unknown): string {
  if (typeof stack !== "string") return "";
  return stack
    .split("\n")
    .slice(1)
    .map((line) => `    ${visible(line.trim())}\n`)
    .join("");
}
