// The live holds of one bucket as text in its row: JSON in ASCII of the numbers of its lows, then of each hold.

import type { HoldBook, KeptHold } from "../../engine/algorithms/hold-book.ts";
import { ID_BYTES_MAX } from "../../engine/algorithms/hold-records.ts";
import type { KeyHash } from "../../engine/domain/key-bytes.ts";
import type { Limit } from "../../engine/domain/limit.ts";

type PackedHold = readonly [id: string, cost: number, paidAtUs: number, endsAtUs: number, payment: number];

export function packHolds(lows: readonly number[], live: readonly KeptHold[]): string {
  const holds = live.map(({ id, cost, paidAtUs, endsAtUs, payment }) => [id, cost, paidAtUs, endsAtUs, payment]);
  return JSON.stringify([lows, holds]).replace(/[\x7f-\xff]/g, escapeOf);
}

function escapeOf(char: string): string {
  return `\\u00${char.charCodeAt(0).toString(16)}`;
}

/** Adds the holds of a text to the book, as those of this bucket. False, with the book unchanged, if `packHolds` can't have written the text. */
export function unpackHolds(book: HoldBook, bucket: KeyHash, limit: Limit, text: string): boolean {
  let read: unknown;
  try {
    read = JSON.parse(text);
  } catch {
    return false;
  }
  if (!Array.isArray(read) || read.length !== 2) return false;
  const [lows, holds] = read as unknown[];
  if (!Array.isArray(lows) || !lows.every(Number.isSafeInteger) || !Array.isArray(holds) || !holds.every(isHold))
    return false;
  book.keep(bucket, limit, lows as number[], (holds as PackedHold[]).map(holdOf));
  return true;
}

function holdOf([id, cost, paidAtUs, endsAtUs, payment]: PackedHold): KeptHold {
  return { id, cost, paidAtUs, endsAtUs, payment };
}

function isHold(value: unknown): value is PackedHold {
  if (!Array.isArray(value) || value.length !== 5) return false;
  const [id, ...numbers] = value as unknown[];
  return typeof id === "string" && id.length <= ID_BYTES_MAX && numbers.every(Number.isSafeInteger);
}
