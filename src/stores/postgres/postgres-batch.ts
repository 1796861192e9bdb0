// The groups that travel in one call: how much one may hold, and what was asked in it.

import { createHash } from "node:crypto";
import { calendarWindow } from "../../engine/algorithms/calendar-window.ts";
import { fixedWindow } from "../../engine/algorithms/fixed-window.ts";
import { slidingWindow } from "../../engine/algorithms/sliding-window.ts";
import { tokenBucket } from "../../engine/algorithms/token-bucket.ts";
import { Algorithm, type Limit } from "../../engine/domain/limit.ts";
import { Mode, type TakeGroup } from "../../engine/domain/take.ts";
import { Batch, type BatchedGroup, HEAD_NUMBERS } from "../batching/batch.ts";
import type { Link } from "../batching/link.ts";
import type { PostgresConnection } from "./connect.ts";
import { Queue } from "./locked-keys.ts";

/**
 * Bound of one call, so that its rows are locked for two or three milliseconds at most. A larger group travels alone.
 */
const BATCH_TAKES_MAX = 256;
/**
 * Weight of a take on a sliding log or on a limit with holds, whose rows are longer (bench/store/postgres-holds.mjs).
 */
const LONG_ROW_WEIGHT = 4;

/** An index entry of PostgreSQL holds 2,704 bytes; longer keys begin with a hash. */
const KEY_LENGTH_MAX = 1_024;
const KEY_LENGTH_KEPT = 256;

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

/** The algorithms that sql/take_each.sql knows. Takes of others are decided here, on locked rows. */
export const PLAIN_STEPS: Readonly<Partial<Record<Algorithm, typeof tokenBucket | typeof slidingWindow>>> = {
  [Algorithm.tokenBucket]: tokenBucket,
  [Algorithm.slidingWindow]: slidingWindow,
  [Algorithm.fixedWindow]: fixedWindow,
  [Algorithm.calendarWindow]: calendarWindow,
};

/** A hold that a take names. */
interface NamedHold {
  readonly bucketKey: string;
  readonly holdId: string;
}

/**
 * True if take_each can pay the group: one take that pays, on a limit that is no counter, has no holds, and an
 * algorithm that it knows.
 */
export function isPlain({ size, takes }: TakeGroup): boolean {
  const take = takes[0];
  if (size !== 1 || take === undefined || take.mode !== Mode.pay) return false;
  return !take.limit.isCounter && take.limit.holdSeconds === 0 && PLAIN_STEPS[take.limit.algorithm] !== undefined;
}

/** Groups for one call, which may have to be sent several times. */
export class PostgresBatch extends Batch {
  /** How often it was sent. */
  attempts = 0;
  /** Whether it waits for rows that others hold. */
  waits: boolean;
  /** The connection it was sent over. */
  link: Link<PostgresConnection> | undefined;

  constructor(queue: number) {
    super(queue);
    this.waits = queue === Queue.contended;
  }

  hasRoomFor(group: TakeGroup): boolean {
    if (this.groups.length === 0) return true;
    const onLongRows = this.takesOnLogs + group.takesOnLogs + this.holds.length + group.takesWithHolds;
    return this.takes + group.size + onLongRows * (LONG_ROW_WEIGHT - 1) <= BATCH_TAKES_MAX;
  }

  /** What is to be given back can wait until its row is free, so it never waits with other rows locked. */
  override get giveBackQueue(): number {
    return Queue.free;
  }

  /** The keys of its buckets, each once. */
  get bucketKeys(): readonly string[] {
    return this.keys;
  }

  /**
   * The holds that its groups name, by the names that the table has for them. To give back nobody has to know what was
   * settled.
   */
  namedHolds(): ReadonlyMap<string, NamedHold> {
    const named = this.holds.filter(({ at, holdId }) => holdId !== "" && this.numbers[at + 4] !== Mode.giveBack);
    return new Map(named.map((hold) => [storedKey(`${hold.bucketKey} ${hold.holdId}`), hold]));
  }

  /**
   * Its plain takes, one per group, in the order of the batch; undefined in the place of a group that was answered
   * already. Undefined as a whole if a group is not plain.
   */
  plainTakes(latestOf: (batched: BatchedGroup) => number): readonly (PlainTake | undefined)[] | undefined {
    if (this.queue !== Queue.plain) return undefined;
    return this.groups.map((batched) => {
      const at = batched.at + HEAD_NUMBERS;
      const place = this.numbers[at] ?? 0;
      const limit = this.limits[(this.numbers[at + 1] ?? 0) - 1];
      if (limit === undefined || batched.state === "answered") return undefined;
      const cost = this.numbers[at + 5] ?? 0;
      return { place, storedKey: storedKey(this.keyAt(place)), limit, cost, latestUs: latestOf(batched) };
    });
  }
}

/**
 * Writes a bucket key for the database: a backslash twice, bytes beyond ASCII as `\x` and two hex digits, a long key as
 * its SHA-256 and its beginning. Different keys have different texts (test/property/stored-key.test.ts): after a
 * backslash comes another one, `x`, or, before a hash, `#`.
 */
export function storedKey(bucketKey: string): string {
  const key = bucketKey.replace(/[^ -[\]-~]/g, escapeOf);
  if (key.length <= KEY_LENGTH_MAX) return key;
  return `\\#${createHash("sha256").update(bucketKey, "latin1").digest("base64url")} ${key.slice(0, KEY_LENGTH_KEPT)}`;
}

function escapeOf(char: string): string {
  return char === "\\" ? "\\\\" : `\\x${char.charCodeAt(0).toString(16).padStart(2, "0")}`;
}

/** An array as PostgreSQL writes it. */
export function textArray(texts: readonly (string | null)[]): string {
  return `{${texts.map((text) => (text === null ? "NULL" : `"${text.replace(/["\\]/g, "\\$&")}"`)).join()}}`;
}
