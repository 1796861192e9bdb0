// What was noticed while logs were read, on standard error, for the commands that read them.

import { visible } from "../core/visible.ts";
import type { LineCounts } from "../simulate/sources/open-calls.ts";
import { paint, type Terminal } from "./terminal.ts";

/** Says which lines were passed over, and which fields no line has. Nothing if all were read as asked. */
export function sayLines({ lines, skipped, firstSkipped = "", unseen }: LineCounts, terminal: Terminal): void {
  const say = (text: string) => terminal.err(`${paint(terminal, "yellow", visible(text))}\n`);
  if (skipped > 0) say(`${skipped} of ${lines} lines hold no call and were passed over; the first: ${firstSkipped}`);
  const names = unseen?.names ?? [];
  if (names.length === 0) return;
  const fields = names.map((name) => `'${name}'`).join(" and ");
  say(`no line has ${fields}: a descriptor without its field is left out, a call without its hits counts as 1`);
}
