// A sliding log as text: its numbers, as LogState has them.

import { LOG_PAYMENTS_MAX } from "../domain/limit.ts";
import type { LogState } from "./log-state.ts";

export function packLog({ numbers, length }: LogState): string {
  return numbers.subarray(0, length).join();
}

/** Reads the payments of a text into the log. False if `packLog` can't have written the text. */
export function unpackLog(text: string, into: LogState): boolean {
  const numbers = text.split(",");
  const payments = (numbers.length - 1) / 2;
  if (!Number.isInteger(payments) || payments < 1 || payments > LOG_PAYMENTS_MAX) return false;
  into.begin(payments);
  for (let i = 0; i < numbers.length; i++) into.numbers[i] = Number(numbers[i]);
  return into.isSound;
}
