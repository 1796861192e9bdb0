// The groups that travel in one call of take_all: gathers them, writes the function's arguments, and keeps what is needed
// to read the reply even after the groups have returned to their pool. sql/011_take_all.sql says what they mean.

import { createHash } from "node:crypto";
import type { Limit } from "../../core/limit.ts";
import type { Take, TakeGroup } from "../../core/take.ts";
import type { Receipt } from "../redis/receipts.ts";
import type { Settled } from "../store.ts";

/** Bounds of one call, so that its rows are held for two or three milliseconds at most. A larger group travels alone. */
export const BATCH_TAKES_MAX = 64;

/** An index entry of PostgreSQL holds 2,704 bytes; longer keys end in a hash. */
const KEY_LENGTH_MAX = 1_024;
const KEY_LENGTH_KEPT = 256;
/** The mode by which take_all gives back, beside those of core/take.ts. */
const MODE_GIVE_BACK = 6;
const ANY_TIME = 0;

/** One group of a batch. `isAnswered`: it got its answer without the store and is no longer ours to write. */
export interface BatchedGroup {
  readonly group: TakeGroup;
  readonly generation: number;
  readonly then: Settled;
  /** What was asked, copied: the group itself is only written to, and only while its generation is the same. */
  readonly takes: readonly BatchedTake[];
  readonly hasSpareQuota: boolean;
  /** The nearer of the call's deadline and the store's, in microseconds of the process's Clock. */
  readonly deadlineUs: number;
  isAnswered: boolean;
}

/** What was asked of one limit. */
export type BatchedTake = Pick<Take, "bucketKey" | "limit" | "descriptor" | "kind" | "mode" | "cost">;

/** The arguments of take_all, arrays as PostgreSQL writes them. */
export interface TakeAllArguments {
  readonly keys: string;
  readonly limits: string;
  readonly groups: string;
}

/** Groups and receipts for one call. Filled, encoded, then kept until its reply is read or the connection is lost. */
export class Batch {
  readonly groups: BatchedGroup[] = [];
  readonly receipts: Receipt[] = [];
  takes = 0;
  isProbe = false;
  sentUs = 0;
  attempts = 0;
  /** Groups that still wait for their answer. */
  waiting = 0;
  timer: NodeJS.Timeout | undefined;
  /** True once its outcome is known or given up: a reply that comes later finds nobody. */
  isDone = false;

  hasRoomFor(group: TakeGroup): boolean {
    return this.groups.length === 0 || this.takes + group.size <= BATCH_TAKES_MAX;
  }

  add(group: TakeGroup, then: Settled, deadlineUs: number): void {
    const takes: BatchedTake[] = [];
    for (let i = 0; i < group.size; i++) {
      const take = group.takes[i];
      if (take === undefined) continue;
      const { bucketKey, limit, descriptor, kind, mode, cost } = take;
      takes.push({ bucketKey, limit, descriptor, kind, mode, cost });
    }
    const { generation, hasSpareQuota } = group;
    this.groups.push({ group, generation, then, takes, hasSpareQuota, deadlineUs, isAnswered: false });
    this.takes += group.size;
    this.waiting++;
  }

  /** `latestOf` gives the latest server time at which a group may still pay. Receipts travel as the first group. */
  encode(latestOf: (batched: BatchedGroup) => number): TakeAllArguments {
    const keys = new Places<string>();
    const limits = new Places<Limit>();
    const numbers: number[] = [];
    if (this.receipts.length > 0) {
      numbers.push(this.receipts.length, ANY_TIME, 0);
      for (const { bucketKey, limit, cost, paidAtUs } of this.receipts) {
        numbers.push(keys.of(bucketKey), limits.of(limit), 0, 0, MODE_GIVE_BACK, cost, paidAtUs);
      }
    }
    for (const batched of this.groups) {
      numbers.push(batched.takes.length, latestOf(batched), batched.hasSpareQuota ? 1 : 0);
      for (const { bucketKey, limit, descriptor, kind, mode, cost } of batched.takes) {
        numbers.push(keys.of(bucketKey), limits.of(limit), descriptor, kind, mode, cost, 0);
      }
    }
    const flat: number[] = [];
    for (const { algorithm, amount, burst, windowSeconds, debtMax } of limits.all) {
      flat.push(algorithm, amount, burst, windowSeconds, debtMax);
    }
    return { keys: textArray(keys.all.map(storedKey)), limits: `{${flat.join()}}`, groups: `{${numbers.join()}}` };
  }
}

/**
 * How a bucket key stands in the database: bytes beyond ASCII as % and two hex digits, which bucket keys use for other
 * bytes only, and the end of a long key as its SHA-256.
 */
export function storedKey(bucketKey: string): string {
  const key = bucketKey.replace(/[^ -~]/g, (char) => `%${char.charCodeAt(0).toString(16).padStart(2, "0")}`);
  if (key.length <= KEY_LENGTH_MAX) return key;
  return `${key.slice(0, KEY_LENGTH_KEPT)}%#${createHash("sha256").update(bucketKey, "latin1").digest("base64url")}`;
}

/** Gives each distinct thing its place, counted from 1. */
class Places<T> {
  readonly all: T[] = [];
  readonly #places = new Map<T, number>();

  of(thing: T): number {
    let place = this.#places.get(thing);
    if (place === undefined) {
      place = this.all.push(thing);
      this.#places.set(thing, place);
    }
    return place;
  }
}

function textArray(texts: readonly string[]): string {
  return `{${texts.map((text) => `"${text.replace(/["\\]/g, "\\$&")}"`).join()}}`;
}
