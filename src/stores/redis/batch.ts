// The groups that travel in one script call: gathers them, writes the script's arguments, and keeps what is needed to
// read the reply even after the groups have returned to their pool. lua/take_all.lua says what the arguments mean.

import { Algorithm, type Limit } from "../../core/limit.ts";
import type { TakeGroup } from "../../core/take.ts";
import type { Settled } from "../store.ts";
import type { Receipt } from "./receipts.ts";

/** Bounds of one call, so that Redis is never held longer than about a millisecond. A larger group travels alone. */
export const BATCH_TAKES_MAX = 128;
export const BATCH_BYTES_MAX = 16_384;
/** What a take on a sliding log, which has a list to read and write, holds Redis for, in other takes. */
const LOG_WEIGHT = 2;

/** Numbers of one group's head and of one take in the script's fourth argument. */
const HEAD_NUMBERS = 3;
const TAKE_NUMBERS = 6;
/** What the script calls a counter, beside the algorithms. */
const COUNTER = 4;
/** Generous size of a take's numbers as text. */
const TAKE_BYTES = 48;

/** One group of a batch. `isAnswered`: it got its answer without the store and is no longer ours to write. */
export interface BatchedGroup {
  readonly group: TakeGroup;
  readonly generation: number;
  readonly then: Settled;
  readonly size: number;
  /** Where the group's numbers begin in the script's fourth argument. */
  readonly at: number;
  /** The call's own deadline, in microseconds of the process's Clock; the store's is added when the batch is sent. */
  deadlineUs: number;
  isAnswered: boolean;
}

/** What was taken from one bucket, as the batch remembers it. */
export interface BatchedTake {
  readonly bucketKey: string;
  readonly limit: Limit;
  readonly mode: number;
  readonly cost: number;
}

/** Groups and receipts for one call. Filled, encoded once, then kept until its reply is read or the connection is lost. */
export class Batch {
  readonly groups: BatchedGroup[] = [];
  readonly receipts: Receipt[] = [];
  takes = 0;
  bytes = 0;
  weight = 0;
  isProbe = false;
  sentUs = 0;
  /** Groups that still wait for their answer. */
  waiting = 0;
  timer: NodeJS.Timeout | undefined;
  /** True once its outcome is known or given up: a reply that comes later finds nobody. */
  isDone = false;

  readonly #keys: string[] = [];
  readonly #keyPlaces = new Map<string, number>();
  readonly #limits: Limit[] = [];
  readonly #limitPlaces = new Map<Limit, number>();
  readonly #numbers: number[] = [];

  get isEmpty(): boolean {
    return this.groups.length === 0 && this.receipts.length === 0;
  }

  /** Whether the group fits beside what is already there. */
  hasRoomFor(group: TakeGroup): boolean {
    if (this.groups.length === 0) return true;
    return this.weight + weightOf(group) <= BATCH_TAKES_MAX && this.bytes + bytesOf(group) <= BATCH_BYTES_MAX;
  }

  /** Copies the group's takes: from now on the group itself is only written to, and only while its generation is the same. */
  add(group: TakeGroup, then: Settled): void {
    const at = this.#numbers.length;
    this.#numbers.push(group.size, 0, flagsOf(group));
    for (let i = 0; i < group.size; i++) {
      const take = group.takes[i];
      if (take === undefined) continue;
      this.#numbers.push(
        this.#placeOfKey(take.bucketKey),
        this.#placeOfLimit(take.limit),
        take.descriptor,
        take.kind,
        take.mode,
        take.cost,
      );
    }
    this.groups.push({
      group,
      generation: group.generation,
      then,
      size: group.size,
      at,
      deadlineUs: group.deadlineUs,
      isAnswered: false,
    });
    this.takes += group.size;
    this.bytes += bytesOf(group);
    this.weight += weightOf(group);
    this.waiting++;
  }

  /** What the group asked of one of its limits. */
  takeOf(batched: BatchedGroup, index: number): BatchedTake | undefined {
    const at = batched.at + HEAD_NUMBERS + index * TAKE_NUMBERS;
    const bucketKey = this.#keys[(this.#numbers[at] ?? 0) - 1];
    const limit = this.#limits[(this.#numbers[at + 1] ?? 0) - 1];
    if (bucketKey === undefined || limit === undefined) return undefined;
    return { bucketKey, limit, mode: this.#numbers[at + 4] ?? 0, cost: this.#numbers[at + 5] ?? 0 };
  }

  /**
   * The script's arguments, from the number of keys on. `timeUs` is 0 for the server's own time; `latestOf` gives the
   * latest server time at which a group may still pay. Counters live up to `jitterSecondsMax` longer than their window.
   */
  encode(timeUs: number, latestOf: (batched: BatchedGroup) => number, jitterSecondsMax = 0): (string | Buffer)[] {
    for (const batched of this.groups) this.#numbers[batched.at + 1] = latestOf(batched);
    const receipts: number[] = [];
    for (const receipt of this.receipts) {
      const { bucketKey, limit, cost, paidAtUs } = receipt;
      receipts.push(this.#placeOfKey(bucketKey), this.#placeOfLimit(limit), cost, paidAtUs);
    }
    const limits: number[] = [];
    for (const limit of this.#limits) {
      const { algorithm, amount, burst, windowSeconds, debtMax, isCounter } = limit;
      const lifetimeSeconds = windowSeconds + Math.floor(Math.random() * jitterSecondsMax);
      limits.push(isCounter ? COUNTER : algorithm, amount, burst, windowSeconds, isCounter ? lifetimeSeconds : debtMax);
    }
    const args: (string | Buffer)[] = [String(this.#keys.length)];
    for (const key of this.#keys) args.push(keyArgument(key));
    args.push(String(timeUs), JSON.stringify(limits), JSON.stringify(receipts), JSON.stringify(this.#numbers));
    return args;
  }

  #placeOfKey(bucketKey: string): number {
    let place = this.#keyPlaces.get(bucketKey);
    if (place === undefined) {
      place = this.#keys.push(bucketKey);
      this.#keyPlaces.set(bucketKey, place);
    }
    return place;
  }

  #placeOfLimit(limit: Limit): number {
    let place = this.#limitPlaces.get(limit);
    if (place === undefined) {
      place = this.#limits.push(limit);
      this.#limitPlaces.set(limit, place);
    }
    return place;
  }
}

// Bucket keys are one-byte text. ASCII is the same in every encoding; the rest must not be encoded once more.
function keyArgument(key: string): string | Buffer {
  return Buffer.byteLength(key) === key.length ? key : Buffer.from(key, "latin1");
}

function flagsOf(group: TakeGroup): number {
  return (group.hasSpareQuota ? 1 : 0) + (group.hasCounters ? (group.stopsAtOver ? 6 : 2) : 0);
}

function weightOf(group: TakeGroup): number {
  let weight = group.size;
  for (let i = 0; i < group.size; i++) {
    if (group.takes[i]?.limit.algorithm === Algorithm.slidingLog) weight += LOG_WEIGHT - 1;
  }
  return weight;
}

function bytesOf(group: TakeGroup): number {
  let bytes = 0;
  for (let i = 0; i < group.size; i++) bytes += TAKE_BYTES + (group.takes[i]?.bucketKey.length ?? 0);
  return bytes;
}
