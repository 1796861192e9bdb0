// The groups that travel in one script call: how many fit, and the script's arguments. lua/take.lua explains the
// arguments. And the form of numbers in arguments and replies: doubles in a row, least significant byte first. A double
// holds every whole number below 2^53, and neither side has to write or parse digits.

import { endianness } from "node:os";
import { MICROS_PER_SECOND } from "../../base/units.ts";
import { Algorithm } from "../../engine/domain/limit.ts";
import { type TakeGroup, weightOf } from "../../engine/domain/take.ts";
import { Batch, HEAD_NUMBERS, type ServerTimes, TAKE_NUMBERS } from "../batching/batch.ts";
import type { ClusterTags } from "./cluster-tags.ts";
import type { Scripts } from "./scripts.ts";

/**
 * Bounds of one call, so that Redis is blocked for about a millisecond at most. A larger group travels alone: two
 * milliseconds (GROUP_WEIGHT_MAX).
 */
export const BATCH_WEIGHT_MAX = 128;
export const BATCH_BYTES_MAX = 16_384;
/** Upper estimate of a take's numbers in the arguments, in bytes. */
const TAKE_BYTES = 48;

/** Groups for one script call. They are encoded again each time the call is sent. */
export class RedisBatch extends Batch {
  /** How often a node has answered it with CLUSTERDOWN. */
  clusterDowns = 0;
  readonly #tags: ClusterTags | undefined;

  /** `tags` only for a cluster. */
  constructor(queue = 0, tags?: ClusterTags) {
    super(queue);
    this.#tags = tags;
  }

  /** The script that decides it. */
  get script(): keyof Scripts {
    return this.holds.length > 0 ? "holds" : "takes";
  }

  /** Number of different buckets that it names, however many keys they have. */
  get bucketCount(): number {
    const keys = new Set<string>();
    for (const { at, size } of this.groups) {
      for (let i = 0; i < size; i++) keys.add(this.keyAt(this.numbers[at + HEAD_NUMBERS + i * TAKE_NUMBERS] ?? 0));
    }
    return keys.size;
  }

  hasRoomFor(group: TakeGroup): boolean {
    if (this.groups.length === 0) return true;
    // Some of the group's keys may be in the batch already; to count them again costs less than to look for them.
    let bytes = this.keyBytes + (this.takes + group.size) * TAKE_BYTES;
    for (let i = 0; i < group.size; i++) bytes += group.takes[i]?.bucketKey.length ?? 0;
    return this.#weight + group.weight <= BATCH_WEIGHT_MAX && bytes <= BATCH_BYTES_MAX;
  }

  get #weight(): number {
    return weightOf(this.takes, this.takesOnLogs, this.holds.length);
  }

  /**
   * The script's arguments as one-byte text, from the number of keys on. `timeUs` is the time in microseconds since the
   * epoch, 0 for the server's own.
   */
  encode(timeUs: number, { latestOf, bucketTimeUs }: ServerTimes): string[] {
    this.writeLatest(latestOf);
    const limits: number[] = [];
    for (const limit of this.limits) {
      const { algorithm, amount, burst, windowSeconds, debtMax, calendar } = limit;
      if (calendar !== undefined) {
        calendar.turnTo(bucketTimeUs());
        limits.push(algorithm, amount, calendar.startUs, calendar.endUs, calendar.nextEndUs);
        continue;
      }
      limits.push(algorithm, amount, burst, windowSeconds, debtMax);
    }
    const holds = this.#holdNumbers();
    const packed = [packNumbers([timeUs]), packNumbers(limits), packNumbers(this.numbers)];
    if (holds.length > 0) packed.push(packNumbers(holds));
    return [String(this.keys.length), ...this.storedKeys(), ...packed];
  }

  // The numbers that lua/holds.lua reads. Takes are named by where their numbers begin, counted from 1.
  #holdNumbers(): number[] {
    const numbers: number[] = [];
    for (const { at, bucketKey, limit, holdId } of this.holds) {
      const us = limit.holdSeconds * MICROS_PER_SECOND;
      const own = holdId === "" ? 0 : this.placeOfKey(`${bucketKey}|hold|${holdId}`);
      const set = this.placeOfKey(`${bucketKey}|holds`);
      const hasLows = limit.algorithm === Algorithm.tokenBucket && !limit.isConcurrent;
      const lows = hasLows ? this.placeOfKey(`${bucketKey}|lows`) : 0;
      numbers.push(at + 1, this.placeOfKey(bucketKey), set, lows, own, limit.isConcurrent ? -us : us);
    }
    return numbers;
  }

  protected storedKeys(): readonly string[] {
    const tags = this.#tags;
    return tags === undefined ? this.keys : this.keys.map((key) => tags.storedKey(key, this.queue));
  }
}

const BYTES = Float64Array.BYTES_PER_ELEMENT;
const IS_BIG_ENDIAN = endianness() === "BE";

/** The script's longest replies have some ten thousand numbers; longer ones are something else. */
const REPLY_NUMBERS_MAX = 131_072;

/**
 * Where numbers turn into bytes and back. Both ways end before another call begins, so one place serves all; it grows
 * as needed.
 */
let doubles = new Float64Array(1_024);
let bytes = Buffer.from(doubles.buffer);

/** The numbers as one-byte text. */
export function packNumbers(numbers: readonly number[]): string {
  const count = numbers.length;
  makeRoomFor(count);
  // Copied one by one: Float64Array.from and Array.from take ten times as long.
  for (let i = 0; i < count; i++) doubles[i] = numbers[i] as number;
  swapIfNeeded(count);
  return bytes.latin1Slice(0, count * BYTES);
}

/** The numbers of a packed reply; undefined if the reply has another form or is longer than any of ours. */
export function unpackNumbers(reply: unknown): readonly number[] | undefined {
  if (!Buffer.isBuffer(reply) || reply.length % BYTES !== 0) return undefined;
  const count = reply.length / BYTES;
  if (count > REPLY_NUMBERS_MAX) return undefined;
  makeRoomFor(count);
  reply.copy(bytes);
  swapIfNeeded(count);
  const numbers: number[] = [];
  for (let i = 0; i < count; i++) numbers.push(doubles[i] as number);
  return numbers;
}

function makeRoomFor(count: number): void {
  if (count <= doubles.length) return;
  doubles = new Float64Array(2 * count);
  bytes = Buffer.from(doubles.buffer);
}

function swapIfNeeded(count: number): void {
  if (IS_BIG_ENDIAN) bytes.subarray(0, count * BYTES).swap64();
}
