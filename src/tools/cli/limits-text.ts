// Shared by the `headgate limits` commands: the server's answers, and how they are printed.

import { visible } from "../../base/visible.ts";
import { typedText } from "../../engine/domain/entry-text.ts";
import type { SetAnswer, SetLimit } from "../../operate/http/limit-pages.ts";
import { RUNTIME_UNTIL_SECONDS_MAX, untilMs } from "../../operate/http/read-asked-limit.ts";
import { expected } from "./arguments.ts";
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

/** Reads an end: a duration from now, or a time. */
export function parseUntil(text: string): object {
  const [, number, unit] = /^(\d{1,9})([smhd])$/.exec(text) ?? [];
  const seconds = Number(number) * SECONDS[(unit ?? "s") as keyof typeof SECONDS];
  if (seconds >= 1 && seconds <= RUNTIME_UNTIL_SECONDS_MAX) return { until_seconds: seconds };
  if (untilMs(text) !== undefined) return { until: text };
  throw expected(
    `expected a duration such as 90s, 30m, 2h or 7d, at most ${RUNTIME_UNTIL_SECONDS_MAX / SECONDS.d}d, or a time such as 2026-12-24T18:00:00Z, got '${text}'`,
  );
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
