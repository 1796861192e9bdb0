// An answer of /top as a table for people.

import { visible } from "../../base/visible.ts";
import { typedText } from "../../engine/domain/entry-text.ts";
import type { TopView } from "../../operate/telemetry/top/top-view.ts";
import { count, paint, type Terminal } from "./terminal.ts";

const TITLES = ["REFUSED", "ASKED", "SINCE", "LAST", "RULE", "KEY"];
/** The first columns are numbers, aligned to the right. */
const NUMBERS = 4;
/** Least width of rules and keys on a narrow screen. */
const TEXT_COLUMNS_MIN = 10;
/** Share of all calls above which a key stands out. */
const STANDS_OUT = 0.01;

/** What the table shows; `trend` is for the page. */
type Shown = Omit<TopView, "from" | "window_seconds" | "rest_asked" | "rest_refused" | "keys"> & {
  readonly keys: readonly Omit<TopView["keys"][number], "trend">[];
};

/**
 * The table below a headline, and a note if no key stands out. On a screen each row is one line: long rules and keys
 * are cut in
 * their middle, because they often begin alike.
 */
export function topText(answer: Shown, terminal: Terminal): string {
  const { at, window, by, keys, processes } = answer;
  const who = by === "refused" ? "refused most" : "asking most";
  const of = processes === undefined ? "" : `, ${processes} ${processes === 1 ? "process" : "processes"}`;
  const head = paint(terminal, "bold", visible(`${who} within the last ${window}, ${at.slice(11, 19)} UTC${of}`));
  const note = standsOut(answer) ? "" : `${noKeyWords(answer)}\n`;
  if (keys.length === 0) return `${head}\n\n${note}`;
  const rows = keys.map((key) => cellsOf(key, at));
  const widths = fitted(
    TITLES.map((title, i) => Math.max(title.length, ...rows.map((row) => row[i]?.length ?? 0))),
    terminal.screenColumns,
  );
  const line = (cells: readonly string[]) => cells.map((cell, i) => padded(cell, i, widths[i] ?? 0)).join("  ");
  const above = note === "" ? "" : `${note}\n`;
  return `${head}\n\n${above}${paint(terminal, "dim", line(TITLES))}\n${rows.map((row) => `${line(row)}\n`).join("")}`;
}

/** As on the page (page/keys.mjs). */
function standsOut({ by, asked, refused, keys: [key] }: Shown): boolean {
  if (key === undefined) return false;
  const [certain, all] =
    by === "refused" ? [key.refused - key.refused_overcount, refused] : [key.asked - key.asked_overcount, asked];
  return certain >= STANDS_OUT * all;
}

function noKeyWords({ by, asked, refused }: Shown): string {
  const [all, noun, none] =
    by === "refused" ? [refused, "refusal", "nobody is refused"] : [asked, "question", "nobody asks"];
  return all === 0 ? none : `no key stands out among ${count(all, noun)}`;
}

function cellsOf(key: Shown["keys"][number], at: string): readonly string[] {
  const limit = key.limit === "" ? "" : `#${key.limit}`;
  return [
    between(key.refused, key.refused_overcount),
    between(key.asked, key.asked_overcount),
    sinceWords(key.refused_since, at),
    sinceWords(key.last_refused, at),
    visible(`${key.domain}/${key.rule === "" ? "(global limit)" : key.rule}${limit}`),
    visible(`${key.blocked === true ? "(blocked) " : ""}${callerText(key)}`),
  ];
}

/** The name of a bucket begins with its domain, which the rule's column has. */
function callerText({ rule, descriptor, key }: Shown["keys"][number]): string {
  // Of a global limit only the guarantees have callers.
  if (rule === "" && descriptor === undefined) return "all calls of the domain";
  return descriptor === undefined ? key.replace(/^[^{]*\{[^|}]*\|([^}]*).*$/, "$1") : typedText(descriptor);
}

/** Widths that fit the screen: the rule gets at most half of what numbers leave, the key the rest. */
function fitted(widths: readonly number[], screenColumns = Number.POSITIVE_INFINITY): readonly number[] {
  const numbers = widths.slice(0, NUMBERS);
  const [rule = 0, key = 0] = widths.slice(NUMBERS);
  const room = screenColumns - numbers.reduce((sum, width) => sum + width + 2, 2);
  const ruleWidth = Math.max(TEXT_COLUMNS_MIN, Math.min(rule, Math.max(Math.floor(room / 2), room - key)));
  return [...numbers, ruleWidth, Math.max(TEXT_COLUMNS_MIN, Math.min(key, room - ruleWidth))];
}

function padded(text: string, column: number, width: number): string {
  const cell = cutInMiddle(text, width);
  if (column < NUMBERS) return cell.padStart(width);
  return column < TITLES.length - 1 ? cell.padEnd(width) : cell;
}

function cutInMiddle(text: string, width: number): string {
  if (text.length <= width) return text;
  const tail = Math.floor((width - 3) / 2);
  return `${text.slice(0, width - 3 - tail)}...${text.slice(text.length - tail)}`;
}

/** A count that may be too high, as a range. */
function between(most: number, overcount: number): string {
  return overcount === 0 ? `${most}` : `${most - overcount}-${most}`;
}

/** How long ago, in the largest full unit. */
function sinceWords(since: string | null, at: string): string {
  if (since === null) return "-";
  const seconds = Math.max(0, Math.round((Date.parse(at) - Date.parse(since)) / 1_000));
  if (seconds < 60) return `${seconds} s`;
  return seconds < 3_600 ? `${Math.floor(seconds / 60)} min` : `${Math.floor(seconds / 3_600)} h`;
}
