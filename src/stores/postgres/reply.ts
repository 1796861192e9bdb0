// Reads what sql/011_take_all.sql replies: whole numbers only, in the order of the call's groups and takes.

import type { Outcome, TakeGroup, Verdict } from "../../core/take.ts";
import type { Batch } from "./batch.ts";

const HEAD_NUMBERS = 2;
const TAKE_NUMBERS = 6;
/** Added to a take's outcome if it was paid. */
const PAID = 4;

/** The verdict of a group that came after its latest time of payment; nothing follows it. Verdict.failed's number. */
export const TOO_LATE = 3;

/** A reply whose numbers are as many as the batch asked for. */
export class Reply {
  readonly #numbers: readonly number[];
  /** Where the numbers of each group begin. */
  readonly #starts: readonly number[];

  private constructor(numbers: readonly number[], starts: readonly number[]) {
    this.#numbers = numbers;
    this.#starts = starts;
  }

  /** Reads `{1,2,...}`. Undefined if that is no reply to a call with these groups. */
  static parse(text: string | null | undefined, batch: Batch): Reply | undefined {
    if (text == null || !/^\{[-\d,]+\}$/.test(text)) return undefined;
    const numbers = text.slice(1, -1).split(",").map(Number);
    const starts: number[] = [];
    let at = HEAD_NUMBERS;
    if (batch.receipts.length > 0) at += 1 + batch.receipts.length * TAKE_NUMBERS;
    for (const { takes } of batch.groups) {
      starts.push(at);
      const verdict = numbers[at];
      if (verdict === 1 || verdict === 2) at += 1 + takes.length * TAKE_NUMBERS;
      else if (verdict === TOO_LATE) at += 1;
      else return undefined;
    }
    return numbers.length === at && numbers.every(Number.isSafeInteger) ? new Reply(numbers, starts) : undefined;
  }

  /** The server's time at the call, in microseconds. */
  get serverUs(): number {
    return this.#numbers[0] ?? 0;
  }

  /** Buckets that were treated as new because their row held nonsense. */
  get damaged(): number {
    return this.#numbers[1] ?? 0;
  }

  /** Allowed, refused, or TOO_LATE. */
  verdictOf(index: number): number {
    return this.#numbers[this.#starts[index] ?? -1] ?? TOO_LATE;
  }

  /** Writes the answer of a group that is not too late. */
  writeTo(group: TakeGroup, index: number): void {
    const numbers = this.#numbers;
    let at = this.#starts[index] ?? 0;
    group.verdict = numbers[at] as Verdict;
    at++;
    for (let i = 0; i < group.size; i++) {
      const take = group.takes[i];
      if (take === undefined) break;
      const status = numbers[at] ?? 0;
      take.outcome = (status & (PAID - 1)) as Outcome;
      take.paid = status >= PAID;
      take.remaining = numbers[at + 1] ?? 0;
      take.waitTicks = numbers[at + 2] ?? 0;
      take.resetTicks = numbers[at + 3] ?? 0;
      take.paidAtUs = numbers[at + 4] ?? 0;
      take.cappedHits = numbers[at + 5] ?? 0;
      at += TAKE_NUMBERS;
    }
  }

  /** Time of payment and capped hits of one take, or undefined if it was not paid. */
  paymentOf(index: number, take: number): { readonly paidAtUs: number; readonly cappedHits: number } | undefined {
    if (this.verdictOf(index) === TOO_LATE) return undefined;
    const at = (this.#starts[index] ?? 0) + 1 + take * TAKE_NUMBERS;
    if ((this.#numbers[at] ?? 0) < PAID) return undefined;
    return { paidAtUs: this.#numbers[at + 4] ?? 0, cappedHits: this.#numbers[at + 5] ?? 0 };
  }
}
