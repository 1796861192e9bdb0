// Copies whole sliding logs out of their blocks and back, for snapshots. A copied entry is two numbers: its time in microseconds and
// its cost.

import { ENTRIES_PER_BLOCK, type LogBlocks, type LogHead } from "./log-blocks.ts";

/** Numbers of a copied entry. */
export const ENTRY_NUMBERS = 2;

const head: LogHead = { first: 0, start: 0, tail: 0, end: 0, kept: 0, blocks: 0, base: 0 };

/** Number of entries of the log that begins at block `root`. */
export function entriesOfLog(blocks: LogBlocks, root: number): number {
  blocks.readHead(root, head);
  return head.kept;
}

/** Copies all entries of the log, oldest first, to `into` from index `at` on. */
export function copyLog(blocks: LogBlocks, root: number, into: Float64Array, at: number): void {
  blocks.readHead(root, head);
  let block = head.first;
  let slot = head.start;
  let before = head.base;
  for (let i = 0; i < head.kept; i++) {
    const sum = blocks.sumAt(block, slot);
    into[at + i * ENTRY_NUMBERS] = blocks.timeAt(block, slot);
    into[at + i * ENTRY_NUMBERS + 1] = sum - before;
    before = sum;
    slot++;
    if (slot === ENTRIES_PER_BLOCK) {
      block = blocks.nextOf(block);
      slot = 0;
    }
  }
}

/**
 * Makes a log of `entries` copied entries (at least one), which begin at index `at` of `from`. Returns its root block; 0, with no
 * block allocated, if there is not enough memory.
 */
export function addLog(blocks: LogBlocks, from: Float64Array, at: number, entries: number): number {
  blocks.beginGroup();
  for (let i = 0; i < entries; i += ENTRIES_PER_BLOCK) if (!blocks.promise()) return 0;
  const root = blocks.addRoot();
  let block = root;
  let slot = 0;
  let sum = 0;
  let count = 1;
  for (let i = 0; i < entries; i++) {
    if (slot === ENTRIES_PER_BLOCK) {
      const next = blocks.add();
      blocks.join(block, next);
      block = next;
      slot = 0;
      count++;
    }
    sum += from[at + i * ENTRY_NUMBERS + 1] as number;
    blocks.setTime(block, slot, from[at + i * ENTRY_NUMBERS] as number);
    blocks.setSum(block, slot, sum);
    slot++;
  }
  blocks.writeHead(root, { first: root, start: 0, tail: block, end: slot, kept: entries, blocks: count, base: 0 });
  return root;
}
