// What was noticed while calls were read, on standard error, for the commands that read them.

import { visible } from "../../engine/base/visible.ts";
import type { LineCounts } from "../simulate/sources/open-calls.ts";
import { paint, type Terminal } from "./terminal.ts";

/** Says which lines were passed over, which files are cut off, and which fields no line has. Nothing if all were read as asked. */
export function sayLines({ lines, skipped, firstSkipped = "", cutOff, unseen }: LineCounts, terminal: Terminal): void {
  const say = (text: string) => terminal.err(`${paint(terminal, "yellow", visible(text))}\n`);
  if (skipped > 0) say(`${skipped} of ${lines} lines hold no call and were passed over; the first: ${firstSkipped}`);
  for (const [file, whole] of cutOff) say(`${file} is cut off after line ${whole}; only what comes before was read`);
  if (unseen === undefined || unseen.names.length === 0) return;
  say(`${unseen.says}. A descriptor without its field is left out, a call without its hits counts as 1`);
}
