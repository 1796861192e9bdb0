// An answer of /top as a table for people.

import { isRecord } from "../core/is-record.ts";
import { visible } from "../core/visible.ts";
import { count, paint, type Terminal } from "./terminal.ts";

/** What /top answered, as far as it is shown here. */
export interface TopAnswer {
  readonly at: string;
  readonly window: string;
  readonly by: string;
  readonly keys: readonly TopKey[];
  /** Of all keys. */
  readonly asked: number;
  readonly refused: number;
  readonly workers?: number;
}

interface TopKey {
  readonly domain: string;
  readonly rule: string;
  readonly limit: string;
  readonly key: string;
  readonly descriptor?: readonly { readonly key: string; readonly value: string }[];
  readonly asked: number;
  readonly refused: number;
  readonly asked_overcount: number;
  readonly refused_overcount: number;
  readonly refused_since: string | null;
}

/** Enough to tell an answer from what something else on that port says. */
export function isTopAnswer(value: unknown): value is TopAnswer {
  return isRecord(value) && typeof value.at === "string" && Array.isArray(value.keys);
}

const TITLES = ["REFUSED", "ASKED", "SINCE", "RULE", "KEY"];
/** Columns of numbers stand to the right. */
const NUMBERS = 3;

/** The table, with a line above it. */
export function topText(answer: TopAnswer, terminal: Terminal): string {
  const { at, window, by, keys, workers } = answer;
  const who = by === "refused" ? "refused most" : "asking most";
  const of = workers === undefined ? "" : `, ${count(workers, "worker")}`;
  const head = paint(terminal, "bold", visible(`${who} within the last ${window}, ${at.slice(11, 19)} UTC${of}`));
  if (keys.length === 0) return `${head}\n\n${withoutKeys(answer)}\n`;
  const rows = keys.map((key) => cellsOf(key, at));
  const widths = TITLES.map((title, i) => Math.max(title.length, ...rows.map((row) => row[i]?.length ?? 0)));
  const line = (cells: readonly string[]) => cells.map((cell, i) => padded(cell, i, widths[i] ?? 0)).join("  ");
  return `${head}\n\n${paint(terminal, "dim", line(TITLES))}\n${rows.map((row) => `${line(row)}\n`).join("")}`;
}

function withoutKeys({ by, asked, refused }: TopAnswer): string {
  const [all, noun, none] =
    by === "refused" ? [refused, "refusal", "nobody is refused"] : [asked, "question", "nobody asks"];
  return all === 0 ? none : `no key stands out among ${count(all, noun)}`;
}

function cellsOf(key: TopKey, at: string): readonly string[] {
  const limit = key.limit === "" ? "" : `#${key.limit}`;
  return [
    between(key.refused, key.refused_overcount),
    between(key.asked, key.asked_overcount),
    sinceWords(key.refused_since, at),
    visible(`${key.domain}/${key.rule === "" ? "(global limit)" : key.rule}${limit}`),
    visible(key.descriptor?.map((entry) => `${entry.key}=${entry.value}`).join(",") ?? key.key),
  ];
}

function padded(cell: string, column: number, width: number): string {
  if (column < NUMBERS) return cell.padStart(width);
  return column < TITLES.length - 1 ? cell.padEnd(width) : cell;
}

/** A count that may be too high, as the least and the most that it may be. */
function between(most: number, overcount: number): string {
  return overcount === 0 ? `${most}` : `${most - overcount}-${most}`;
}

/** How long ago, in the largest unit that is full. */
function sinceWords(since: string | null, at: string): string {
  if (since === null) return "-";
  const seconds = Math.max(0, Math.round((Date.parse(at) - Date.parse(since)) / 1_000));
  if (seconds < 60) return `${seconds} s`;
  return seconds < 3_600 ? `${Math.floor(seconds / 60)} min` : `${Math.floor(seconds / 3_600)} h`;
}
