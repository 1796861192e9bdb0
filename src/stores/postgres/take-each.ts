// Writes a batch of plain takes as the arguments of take_each, and reads its reply. PostgreSQL decides and pays. What a
// paid bucket has left, and when it is full, is computed here from the state in the reply. sql/take_each.sql says what
// arguments and rows mean.

import { BucketState, type Report } from "../../engine/algorithms/working-bucket.ts";
import type { Limit } from "../../engine/domain/limit.ts";
import { Outcome, Verdict } from "../../engine/domain/take.ts";
import { HELD, isReplyTo, PAID, ReplyReader, TOO_LATE } from "../batching/reply.ts";
import type { Rows } from "./connect.ts";
import { NOT_PLAIN } from "./locked-keys.ts";
import { PLAIN_STEPS, type PlainTake, type PostgresBatch, textArray } from "./postgres-batch.ts";

/** Pays plain takes; waits for rows as long as the session's lock_timeout. */
export const TAKE_EACH = {
  name: "take_each",
  text: "SELECT * FROM take_each($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint)",
} as const;

/** What all takes of a batch pay one bucket. */
interface Payment {
  readonly key: string;
  readonly limit: Limit;
  cost: number;
  /** The earliest of their latest times. */
  latestUs: number;
}

/**
 * The first four arguments, arrays as PostgreSQL writes them: keys, costs, latest times, limits. Undefined if two
 * limits share a bucket, as while a rule is edited.
 */
export function takeEachArguments(takes: readonly (PlainTake | undefined)[]): string[] | undefined {
  const payments = new Map<number, Payment>();
  for (const take of takes) {
    if (take === undefined) continue;
    const { place, storedKey, limit, cost } = take;
    const latestUs = take.latestUs || Number.MAX_SAFE_INTEGER;
    const payment = payments.get(place);
    if (payment === undefined) {
      payments.set(place, { key: storedKey, limit, cost, latestUs });
    } else {
      if (!isAlike(payment.limit, limit)) return undefined;
      payment.cost += cost;
      payment.latestUs = Math.min(payment.latestUs, latestUs);
    }
  }
  // All calls lock rows in the order of their keys, so that they never deadlock.
  const sorted = [...payments.values()].sort((one, other) => (one.key < other.key ? -1 : 1));
  const limits: number[] = [];
  let last: Limit | undefined;
  for (const { limit } of sorted) {
    if (last === undefined || !isAlike(last, limit)) {
      limits.push(limit.algorithm, limit.amount, thirdOf(limit), fourthOf(limit), 0);
    }
    limits[limits.length - 1] = (limits.at(-1) ?? 0) + 1;
    last = limit;
  }
  return [
    textArray(sorted.map(({ key }) => key)),
    `{${sorted.map(({ cost }) => cost).join()}}`,
    `{${sorted.map(({ latestUs }) => latestUs).join()}}`,
    `{${limits.join()}}`,
  ];
}

function isAlike(one: Limit, other: Limit): boolean {
  if (one === other) return true;
  if (one.algorithm !== other.algorithm || one.amount !== other.amount) return false;
  return thirdOf(one) === thirdOf(other) && fourthOf(one) === fourthOf(other);
}

// The edges of calendar windows are from the last settlement under lock: if time has left them, take_each leaves the
// take to it again.
function thirdOf({ burst, calendar }: Limit): number {
  return calendar === undefined ? burst : calendar.startUs;
}

function fourthOf({ windowSeconds, calendar }: Limit): number {
  return calendar === undefined ? windowSeconds : calendar.endUs;
}

/**
 * What take_each paid, as a reply to the batch; what it left unpaid is passed over. Undefined if the rows are no reply.
 */
export function readTakeEach(
  batch: PostgresBatch,
  takes: readonly (PlainTake | undefined)[],
  rows: Rows,
): ReplyReader | undefined {
  const nowUs = Number(rows[0]?.[1]);
  const states = new Map<string | null | undefined, BucketState>();
  for (const [key, ...numbers] of rows.slice(1)) states.set(key, stateOf(numbers));
  for (const take of takes) {
    const state = states.get(take?.storedKey);
    if (take !== undefined && state !== undefined) PLAIN_STEPS[take.limit.algorithm]?.undo(state, take.cost);
  }
  const numbers: number[] = [nowUs, 0];
  const report: Report = { remaining: 0, resetUs: 0 };
  for (const take of takes) {
    const state = states.get(take?.storedKey);
    const step = take && PLAIN_STEPS[take.limit.algorithm];
    if (take === undefined) {
      numbers.push(TOO_LATE);
    } else if (state === undefined || step === undefined) {
      numbers.push(HELD, take.place, NOT_PLAIN);
    } else {
      const { limit, cost } = take;
      step.pay(state, cost);
      step.report(state, limit, nowUs, report);
      const { remaining, resetUs } = report;
      numbers.push(Verdict.allowed, Outcome.room + PAID, remaining, 0, resetUs, step.paidAtUs(state, nowUs), 0);
    }
  }
  return numbers.every(Number.isSafeInteger) && isReplyTo(batch, numbers) ? new ReplyReader(numbers) : undefined;
}

function stateOf([atUs, used, previous]: readonly (string | null)[]): BucketState {
  const state = new BucketState();
  state.atUs = Number(atUs);
  state.used = Number(used);
  state.previous = Number(previous);
  return state;
}
