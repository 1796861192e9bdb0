// The groups that travel in one call of take_all: how much one may hold, and the function's arguments.
// sql/034_take_all.sql says what they mean.

import { createHash } from "node:crypto";
import { Algorithm, COUNTER_NUMBER, type Limit } from "../../core/limit.ts";
import { Mode, type TakeGroup } from "../../core/take.ts";
import { MICROS_PER_SECOND } from "../../core/units.ts";
import { Batch, type BatchedGroup, HEAD_NUMBERS, type ServerTimes, TAKE_NUMBERS } from "../batching/batch.ts";
import { Lane } from "./lanes.ts";
import type { Link } from "./link.ts";

/** Bound of one call, so that its rows are locked for two or three milliseconds at most. A larger group travels alone. */
const BATCH_TAKES_MAX = 64;
/** The bound of a call of plain takes, which cost a fifth. */
const PLAIN_TAKES_MAX = 256;
/** Weight of a take on a sliding log, which may have some 250 entries to read or to delete. */
const LOG_WEIGHT = 8;
/** Weight of a take on a limit with holds, which has further rows to read and to write (bench/store/postgres-holds.mjs). */
const HOLD_WEIGHT = 3;

/** An index entry of PostgreSQL holds 2,704 bytes; longer keys begin with a hash. */
const KEY_LENGTH_MAX = 1_024;
const KEY_LENGTH_KEPT = 256;
/** The mode with which take_all gives back; different from all modes of core/take.ts. */
const MODE_GIVE_BACK = 7;
const ANY_TIME = 0;
/** Hits of counters may not fit a bigint; no limit is as large as this. */
const COST_MAX = 2 ** 62;

/** The arguments of take_all, arrays as PostgreSQL writes them. */
interface TakeAllArguments {
  readonly keys: string;
  readonly limits: string;
  readonly groups: string;
  /** Null if no limit of the call has holds. */
  readonly holdIds: string | null;
}

/** A group of one take, as take_each pays it. */
export interface PlainTake {
  /** The key's place among the batch's keys, counted from 1. */
  readonly place: number;
  readonly storedKey: string;
  readonly limit: Limit;
  readonly cost: number;
  /** The latest server time at which it may pay, or 0 for any. */
  readonly latestUs: number;
}

/** True if take_each can pay the group: one take that pays, on a limit that is neither a counter nor a log and has no holds. */
export function isPlain({ size, takes }: TakeGroup): boolean {
  const take = takes[0];
  if (size !== 1 || take === undefined || take.mode !== Mode.pay) return false;
  return !take.limit.isCounter && take.limit.holdSeconds === 0 && take.limit.algorithm !== Algorithm.slidingLog;
}

/** Groups and receipts for one call, which may have to be sent several times. */
export class PostgresBatch extends Batch {
  /** How often it was sent. */
  attempts = 0;
  /** Whether it waits for rows that others hold. */
  waits: boolean;
  /** The connection it was sent over. */
  link: Link | undefined;

  constructor(lane: number) {
    super(lane);
    this.waits = lane === Lane.contended;
  }

  hasRoomFor(group: TakeGroup): boolean {
    if (this.groups.length === 0) return true;
    if (this.lane === Lane.plain) return this.takes < PLAIN_TAKES_MAX;
    const onLogs = this.takesOnLogs + group.takesOnLogs;
    const withHolds = this.holds.length + group.takesWithHolds;
    const weight = this.takes + group.size + onLogs * (LOG_WEIGHT - 1) + withHolds * (HOLD_WEIGHT - 1);
    return weight <= BATCH_TAKES_MAX;
  }

  /**
   * Its plain takes, one per group, in the order of the batch; undefined in the place of a group that was answered already.
   * Undefined as a whole if a group is not plain.
   */
  plainTakes(latestOf: (batched: BatchedGroup) => number): readonly (PlainTake | undefined)[] | undefined {
    if (this.lane !== Lane.plain || this.receipts.length > 0) return undefined;
    return this.groups.map((batched) => {
      const at = batched.at + HEAD_NUMBERS;
      const place = this.numbers[at] ?? 0;
      const limit = this.limits[(this.numbers[at + 1] ?? 0) - 1];
      if (limit === undefined || batched.isAnswered) return undefined;
      const cost = this.numbers[at + 5] ?? 0;
      return { place, storedKey: storedKey(this.keyAt(place)), limit, cost, latestUs: latestOf(batched) };
    });
  }

  /** Receipts travel first, each as a group. */
  encode({ latestOf, bucketTimeUs }: ServerTimes): TakeAllArguments {
    this.writeLatest(latestOf);
    const holdIds = new Map<string, number>();
    const numbers = this.#encodeReceipts(holdIds);
    this.#encodeGroups(numbers, holdIds);
    const hasHolds = this.holds.length > 0 || this.receipts.some(({ limit }) => limit.holdSeconds > 0);
    return {
      keys: textArray(this.keys.map(storedKey)),
      limits: `{${this.#encodeLimits(bucketTimeUs).join()}}`,
      groups: `{${numbers.join()}}`,
      holdIds: hasHolds ? textArray([...holdIds.keys()].map(storedKey)) : null,
    };
  }

  #encodeReceipts(holdIds: Map<string, number>): number[] {
    const numbers: number[] = [];
    for (const { bucketKey, limit, cost, paidAtUs, holdId } of this.receipts) {
      numbers.push(1, ANY_TIME, 0);
      numbers.push(this.placeOfKey(bucketKey), this.placeOfLimit(limit), 0, 0, MODE_GIVE_BACK, cost, paidAtUs);
      numbers.push(placeOfHold(holdIds, holdId));
    }
    return numbers;
  }

  #encodeGroups(numbers: number[], holdIds: Map<string, number>): void {
    const gathered = this.numbers;
    let holds = 0;
    for (const { at, size } of this.groups) {
      numbers.push(size, gathered[at + 1] ?? 0, gathered[at + 2] ?? 0);
      const end = at + HEAD_NUMBERS + size * TAKE_NUMBERS;
      for (let take = at + HEAD_NUMBERS; take < end; take += TAKE_NUMBERS) {
        // Holds are in the order of the takes.
        const hold = this.holds[holds]?.at === take ? this.holds[holds++] : undefined;
        numbers.push(
          gathered[take] ?? 0,
          gathered[take + 1] ?? 0,
          gathered[take + 2] ?? 0,
          gathered[take + 3] ?? 0,
          gathered[take + 4] ?? 0,
          Math.min(COST_MAX, gathered[take + 5] ?? 0),
          // The time of payment, which only give-backs have.
          0,
          placeOfHold(holdIds, hold?.holdId ?? ""),
        );
      }
    }
  }

  #encodeLimits(bucketTimeUs: () => number): number[] {
    const limits: number[] = [];
    for (const limit of this.limits) {
      const { algorithm, amount, burst, windowSeconds, debtMax, isCounter, holdSeconds, isConcurrent, calendar } =
        limit;
      calendar?.turnTo(bucketTimeUs());
      if (calendar !== undefined) limits.push(algorithm, amount, calendar.startUs, calendar.endUs, calendar.nextEndUs);
      else limits.push(isCounter ? COUNTER_NUMBER : algorithm, amount, burst, windowSeconds, debtMax);
      limits.push(holdSeconds * MICROS_PER_SECOND, isConcurrent ? 1 : 0);
    }
    return limits;
  }
}

/** The place of an id among those of the call, counted from 1; 0 of none. */
function placeOfHold(places: Map<string, number>, holdId: string): number {
  if (holdId === "") return 0;
  const place = places.get(holdId) ?? places.size + 1;
  places.set(holdId, place);
  return place;
}

/**
 * Writes a bucket key for the database: a backslash twice, bytes beyond ASCII as `\x` and two hex digits, a long key as
 * its SHA-256 and its beginning. Different keys have different texts (test/property/stored-key.test.ts): after a backslash comes
 * another one, `x`, or, before a hash, `#`.
 */
export function storedKey(bucketKey: string): string {
  const key = bucketKey.replace(/[^ -[\]-~]/g, escapeOf);
  if (key.length <= KEY_LENGTH_MAX) return key;
  return `\\#${createHash("sha256").update(bucketKey, "latin1").digest("base64url")} ${key.slice(0, KEY_LENGTH_KEPT)}`;
}

function escapeOf(char: string): string {
  return char === "\\" ? "\\\\" : `\\x${char.charCodeAt(0).toString(16).padStart(2, "0")}`;
}

export function textArray(texts: readonly string[]): string {
  return `{${texts.map((text) => `"${text.replace(/["\\]/g, "\\$&")}"`).join()}}`;
}
