// Reads the text that sql/034_take_all.sql replies, as numbers. Its first groups are the give-backs, one group each.

import { HELD, HELD_NUMBERS, isReplyTo, REPLY_HEAD_NUMBERS, ReplyReader } from "../batching/reply.ts";
import type { PostgresBatch } from "./batch.ts";

const TAKE_NUMBERS = 6;

/** Reads `{1,2,...}`. Undefined if the text is no reply to a call with these groups. */
export function readReply(batch: PostgresBatch, text: string | null | undefined): ReplyReader | undefined {
  if (text == null || !/^\{[-\d,]+\}$/.test(text)) return undefined;
  const numbers = text.slice(1, -1).split(",").map(Number);
  let start = REPLY_HEAD_NUMBERS;
  const notGivenBack: number[] = [];
  for (const place of batch.receipts.keys()) {
    if (numbers[start] === HELD) notGivenBack.push(place);
    start += numbers[start] === HELD ? HELD_NUMBERS : 1 + TAKE_NUMBERS;
  }
  if (!numbers.every(Number.isSafeInteger) || !isReplyTo(batch, numbers, start)) return undefined;
  return new ReplyReader(numbers, start, notGivenBack);
}
