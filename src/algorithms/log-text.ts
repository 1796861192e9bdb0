// A sliding log as text: its payments, oldest first, each as its time in microseconds and its cost.

import { AMOUNT_MAX } from "../core/units.ts";
import type { LogBlocks } from "./log-blocks.ts";
import { addLog, copyLog, ENTRY_NUMBERS, entriesOfLog } from "./log-copy.ts";

/** The log that begins at block `root`. */
export function packLog(blocks: LogBlocks, root: number): string {
  const numbers = new Float64Array(entriesOfLog(blocks, root) * ENTRY_NUMBERS);
  copyLog(blocks, root, numbers, 0);
  return numbers.join();
}

/** Makes a log of a text. Returns its root block; 0 if `packLog` can't have written the text. */
export function unpackLog(blocks: LogBlocks, text: string): number {
  const numbers = Float64Array.from(text.split(","), Number);
  if (numbers.length % ENTRY_NUMBERS !== 0) return 0;
  let lastUs = 0;
  let total = 0;
  for (let at = 0; at < numbers.length; at += ENTRY_NUMBERS) {
    const timeUs = numbers[at] as number;
    const cost = numbers[at + 1] as number;
    if (!Number.isSafeInteger(timeUs) || !Number.isSafeInteger(cost) || timeUs < lastUs || cost < 1) return 0;
    lastUs = timeUs;
    total += cost;
  }
  return total > AMOUNT_MAX ? 0 : addLog(blocks, numbers, 0, numbers.length / ENTRY_NUMBERS);
}
