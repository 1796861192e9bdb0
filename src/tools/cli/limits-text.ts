// Shared by the `headgate limits` commands: the server's answers, and how they are printed.

import { visible } from "../../engine/base/visible.ts";
import { typedText } from "../../engine/domain/entry-text.ts";
import type { SetAnswer, SetLimit } from "../../operate/http/limit-pages.ts";
import { paint, type Terminal } from "./terminal.ts";

/** Where to ask, and how to print. */
export interface ServerFlags {
  readonly server: string;
  readonly tokenFile?: string;
  readonly json?: true;
}

/** One limit at run time in the JSON of the HTTP port. */
export interface ShownLimit {
  readonly domain: string;
  readonly entries: readonly { readonly key: string; readonly value: string; readonly value_base64?: string }[];
  readonly [more: string]: unknown;
}

export function exitCodeOf(limits: readonly SetLimit[]): number {
  return limits.every(({ outcome }) => outcome === "set" || outcome === "would be set") ? 0 : 1;
}

const SECONDS = { s: 1, m: 60, h: 3_600, d: 86_400 } as const;

/** Reads an end: a duration from now, or a time, which the server checks. */
export function parseUntil(text: string): object {
  const [, number, unit] = /^([1-9]\d{0,8})([smhd])$/.exec(text) ?? [];
  if (number === undefined) return { until: text };
  return { until_seconds: Number(number) * SECONDS[unit as keyof typeof SECONDS] };
}

/** The outcome of one change. */
export function resultText(
  { domain, entries, outcome, says, before, after, until }: SetLimit,
  terminal: Terminal,
): string {
  const whose = visible(`${domain} ${typedText(entries)}`);
  if (says !== undefined) return `${paint(terminal, "red", `${whose}: ${outcome}`)}\n  ${visible(says)}\n`;
  const done = after?.length === 0 ? outcome.replace("set", "unset") : outcome;
  const lines = [`${paint(terminal, "bold", `${whose}: ${done}`)}${until === undefined ? "" : ` until ${until}`}`];
  for (const words of before ?? []) lines.push(`  before  ${visible(words)}`);
  for (const words of after ?? []) lines.push(`  now     ${visible(words)}`);
  return `${lines.join("\n")}\n`;
}

/** How many processes have the change in force. */
export function processesText(processes: SetAnswer["processes"], terminal: Terminal): string {
  if (processes === undefined) return "";
  const { confirmed, count: all, waiting, is_saved: isSaved } = processes;
  if (all === 0) return paint(terminal, "yellow", "no process has reported yet which changes it has in force\n");
  const text = `in force in ${confirmed} of ${all} ${all === 1 ? "process" : "processes"}`;
  if (isSaved === false) return paint(terminal, "yellow", `${text}; not yet in its file, so a restart would lose it\n`);
  return waiting.length === 0
    ? `${text}\n`
    : `${paint(terminal, "yellow", `${text}; not confirmed: ${visible(waiting.join(", "))}`)}\n`;
}
