// Reads a shared store's reply to a batch: whole numbers only, in the order of the call's groups and takes. First the
// server's time and the number of damaged buckets; then for each group its verdict and, if it was allowed or refused,
// six numbers per take: outcome (and whether it was paid, and opened a hold), remaining, wait, reset, time of payment
// or count, capped hits. At the end, for each bucket whose holds have ended, the place of its key and their number.

import { StoreError } from "../../base/errors.ts";
import { Mode, type Outcome, type TakeGroup, type Verdict } from "../../engine/domain/take.ts";
import type { Batch, BatchedGroup } from "./batch.ts";

const REPLY_HEAD_NUMBERS = 2;
const TAKE_NUMBERS = 6;
/** Added to a take's outcome if the take was paid. */
export const PAID = 4;
/** Added too if the payment opened a hold. */
export const OPENED = 8;

/** Verdict of a group that came after its latest time of payment; nothing follows. Equal to Verdict.failed. */
export const TOO_LATE = 3;

/** Verdict of a group with a counter whose key holds something else; nothing follows. */
export const NOT_COUNTED = 4;
export const NOT_COUNTED_ERROR = new StoreError(
  "STORE_COUNTER",
  "the key of a counter holds no count; the call's other counters were charged",
  undefined,
  true,
);

/** Verdict of a group that was passed over, unpaid. The place of the held key follows, and who holds it. */
export const HELD = 5;
/** Verdict of an unpaid group whose hold finds no place; nothing follows. */
export const HOLDS_FULL = 6;

/** Numbers of a group that is HELD. */
const HELD_NUMBERS = 3;
/** Numbers of a bucket whose holds have ended. */
const ENDED_NUMBERS = 2;

/** Whether `reply` answers a call with these groups. Such a reply can be read without further checks. */
export function isReplyTo(batch: Batch, reply: unknown): reply is readonly number[] {
  if (!Array.isArray(reply)) return false;
  let at = REPLY_HEAD_NUMBERS;
  for (const batched of batch.groups) {
    const verdict: unknown = reply[at];
    at++;
    if (verdict === 1 || verdict === 2) at += batched.size * TAKE_NUMBERS;
    else if (verdict === HELD) at += HELD_NUMBERS - 1;
    else if (verdict !== TOO_LATE && verdict !== NOT_COUNTED && verdict !== HOLDS_FULL) return false;
  }
  const rest = reply.length - at;
  if (rest !== 0 && (rest < 0 || rest % ENDED_NUMBERS !== 0 || !batch.asksOfHolds)) return false;
  return reply.every((number) => typeof number === "number");
}

/** Reads a reply's groups in the order of the batch. */
export class ReplyReader {
  readonly #reply: readonly number[];
  #at = REPLY_HEAD_NUMBERS;

  constructor(reply: readonly number[]) {
    this.#reply = reply;
  }

  /** The server's time at the call, in microseconds. */
  get serverUs(): number {
    return this.#reply[0] ?? 0;
  }

  /** Buckets that count as full because their keys held something else. */
  get damaged(): number {
    return this.#reply[1] ?? 0;
  }

  /** Verdict of the present group: allowed, refused, TOO_LATE, NOT_COUNTED, HELD or HOLDS_FULL. */
  get verdict(): number {
    return this.#reply[this.#at] ?? TOO_LATE;
  }

  /** Writes the answer of the present group, and goes on to the next. Only for allowed and refused groups. */
  writeTo(group: TakeGroup, batched: BatchedGroup): void {
    const reply = this.#reply;
    group.verdict = this.verdict as Verdict;
    let at = this.#at + 1;
    for (let i = 0; i < batched.size; i++) {
      const take = group.takes[i];
      if (take === undefined) break;
      const status = reply[at] ?? 0;
      take.outcome = (status & (PAID - 1)) as Outcome;
      take.paid = status >= PAID;
      take.remaining = reply[at + 1] ?? 0;
      take.waitUs = reply[at + 2] ?? 0;
      take.resetUs = reply[at + 3] ?? 0;
      if (take.limit.isCounter) take.count = reply[at + 4] ?? 0;
      else if (take.mode === Mode.settle) take.held = reply[at + 4] ?? 0;
      else take.paidAtUs = reply[at + 4] ?? 0;
      take.cappedHits = reply[at + 5] ?? 0;
      at += TAKE_NUMBERS;
    }
    if (group.takesWithHolds > 0) this.#writeHolds(group, batched);
    this.skip(batched);
  }

  #writeHolds(group: TakeGroup, batched: BatchedGroup): void {
    for (let i = 0; i < batched.size; i++) {
      const take = group.takes[i];
      if (take === undefined || take.limit.holdSeconds === 0) continue;
      const at = this.#at + 1 + i * TAKE_NUMBERS;
      if (take.mode === Mode.pay) take.openedHold = (this.#reply[at] ?? 0) >= OPENED;
      if (take.mode !== Mode.peek) continue;
      take.liveHolds = this.#reply[at + 4] ?? 0;
      take.paidAtUs = 0;
    }
  }

  /** The place of the held key and its holder, for a group that is HELD. */
  get held(): { readonly place: number; readonly holder: number } {
    return { place: this.#reply[this.#at + 1] ?? 0, holder: this.#reply[this.#at + 2] ?? 0 };
  }

  /** Calls `each` for every paid take of the present group. Does not go on to the next. */
  eachPaid(batched: BatchedGroup, each: (index: number, paidAtUs: number, cappedHits: number) => void): void {
    if (this.verdict >= TOO_LATE) return;
    for (let i = 0; i < batched.size; i++) {
      const at = this.#at + 1 + i * TAKE_NUMBERS;
      if ((this.#reply[at] ?? 0) >= PAID) each(i, this.#reply[at + 4] ?? 0, this.#reply[at + 5] ?? 0);
    }
  }

  /** Calls `each` for every bucket whose holds have ended; to be called after the last group. */
  eachEnded(each: (place: number, count: number) => void): void {
    const reply = this.#reply;
    for (let at = this.#at; at + 1 < reply.length; at += ENDED_NUMBERS) each(reply[at] ?? 0, reply[at + 1] ?? 0);
  }

  /** Goes on to the next group. */
  skip(batched: BatchedGroup): void {
    if (this.verdict === HELD) this.#at += HELD_NUMBERS;
    else this.#at += 1 + (this.verdict >= TOO_LATE ? 0 : batched.size * TAKE_NUMBERS);
  }
}
