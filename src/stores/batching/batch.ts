// The groups that travel in one call to a shared store. A batch gathers their takes as numbers, names each key and each
// limit once, and keeps what is needed to read the reply even after the groups have returned to their pool. The store
// decides how a call is written, and how much it may hold.

import type { Limit } from "../../engine/domain/limit.ts";
import type { LimitStats } from "../../engine/domain/stats.ts";
import type { TakeListener } from "../../engine/domain/store.ts";
import { Mode, type Take, type TakeGroup } from "../../engine/domain/take.ts";

/**
 * Numbers of a group's head (takes, latest time of payment, flags), and of a take: place of its key, place of its
 * limit, descriptor (Mode.giveBack: time of the payment), kind (Mode.guarantee: place of the limit that it covers;
 * Mode.giveBack: of the limit by which it returns), mode, cost.
 */
export const HEAD_NUMBERS = 3;
export const TAKE_NUMBERS = 6;

/** A group of a batch. */
export interface BatchedGroup {
  readonly group: TakeGroup;
  readonly generation: number;
  readonly then: TakeListener;
  readonly size: number;
  /** Whether it gives a payment back. Its listener gets the outcome, however late. */
  readonly isGiveBack: boolean;
  /** Index of the group's head in the batch's numbers. */
  readonly at: number;
  /**
   * When the group is answered without the store, in microseconds of the process's Clock: while it is only added, the
   * call's own deadline; then the time that answers.ts has set.
   */
  answerByUs: number;
  /**
   * `added`: no timer watches its deadline yet. `timed`: it is answered at `answerByUs` at the latest. `late`: a
   * give-back whose time has passed; other calls need not wait for it. `answered`: its caller has the answer, and it
   * must no longer be written.
   */
  state: "added" | "timed" | "late" | "answered";
}

/** A take on a limit with holds. */
interface BatchedHold {
  /** Index of its take's numbers in the batch's. */
  readonly at: number;
  readonly bucketKey: string;
  readonly limit: Limit;
  readonly holdId: string;
  /** The counters of the take. */
  readonly stats: LimitStats;
}

/** What a batch asks about the server's clock. */
export interface ServerTimes {
  /** The latest server time at which a group may still pay, in microseconds. */
  readonly latestOf: (batched: BatchedGroup) => number;
  /** The most likely server time, in microseconds. */
  readonly bucketTimeUs: () => number;
}

/** A take, as the batch remembers it. */
export type BatchedTake = NonNullable<ReturnType<Batch["takeOf"]>>;

/** Groups for one call. It is filled, sent, and kept until its outcome is known or given up. */
export abstract class Batch {
  readonly groups: BatchedGroup[] = [];
  /**
   * Takes travel together only if they wait in the same queue, a number that the store gives a meaning. In a cluster
   * all keys of a queue have one hash slot (redis/cluster-tags.ts). 0 if all takes may travel together.
   */
  readonly queue: number;
  takes = 0;
  /** How many of the takes give back. */
  giveBacks = 0;
  /** Number of takes on sliding logs. */
  takesOnLogs = 0;
  /** Bytes of all keys, each counted once. */
  keyBytes = 0;
  /** How often another server has passed it on, which has used some of its calls' time. */
  redirections = 0;
  /** `waiting`: not sent yet. `done`: its outcome is known or given up, and a later reply is ignored. */
  state: "waiting" | "sent" | "done" = "waiting";
  sentUs = 0;
  /** Groups, none of them late, that still wait for their answer. */
  waiting = 0;
  timer: NodeJS.Timeout | undefined;

  protected readonly keys: string[] = [];
  protected readonly limits: Limit[] = [];
  protected readonly numbers: number[] = [];
  protected readonly holds: BatchedHold[] = [];
  readonly #keyPlaces = new Map<string, number>();
  readonly #limitPlaces = new Map<Limit, number>();

  constructor(queue = 0) {
    this.queue = queue;
  }

  /** Whether the group fits with what the batch has. An empty batch takes any group. */
  abstract hasRoomFor(group: TakeGroup): boolean;

  /** Whether anybody waits for its outcome. */
  get isWanted(): boolean {
    return this.waiting > 0 || this.groups.some(({ state }) => state === "late");
  }

  /** The queue in which its payments are given back. */
  get giveBackQueue(): number {
    return this.queue;
  }

  /** Copies the group's takes. After this the group is only written to, and only while its generation is the same. */
  add(group: TakeGroup, then: TakeListener): void {
    const at = this.numbers.length;
    this.numbers.push(group.size, 0, flagsOf(group));
    for (let i = 0; i < group.size; i++) {
      const take = group.takes[i];
      if (take === undefined) continue;
      const { bucketKey, limit, holdId, stats } = take;
      if (limit.holdSeconds > 0) this.holds.push({ at: this.numbers.length, bucketKey, limit, holdId, stats });
      this.numbers.push(
        this.placeOfKey(bucketKey),
        this.placeOfLimit(limit),
        take.mode === Mode.giveBack ? take.paidAtUs : take.descriptor,
        hasLimitAsKind(take) ? this.placeOfLimit(limit.covers ?? limit) : take.kind,
        take.mode,
        take.cost,
      );
    }
    const isGiveBack = group.takes[0]?.mode === Mode.giveBack;
    if (isGiveBack) this.giveBacks++;
    this.groups.push({
      group,
      generation: group.generation,
      then,
      size: group.size,
      isGiveBack,
      at,
      answerByUs: group.deadlineUs,
      state: "added",
    });
    this.takes += group.size;
    this.takesOnLogs += group.takesOnLogs;
    this.waiting++;
  }

  /**
   * Tells the group's caller that the answer is written, unless the group serves another call by now. Once for each
   * group.
   */
  answer(batched: BatchedGroup): void {
    this.leave(batched);
    if (batched.group.generation !== batched.generation) return;
    try {
      batched.then.answered(batched.group, batched.generation);
    } catch (error) {
      // An exception of this caller must not reach the other groups, so it is thrown later.
      queueMicrotask(() => {
        throw error;
      });
    }
  }

  /** Notes that nothing in this batch answers the group any more. */
  leave(batched: BatchedGroup): void {
    if (batched.state !== "late") this.waiting--;
    batched.state = "answered";
  }

  /** What the group asked of one of its limits. */
  takeOf(batched: BatchedGroup, index: number) {
    const at = batched.at + HEAD_NUMBERS + index * TAKE_NUMBERS;
    const bucketKey = this.keys[(this.numbers[at] ?? 0) - 1];
    const limit = this.limits[(this.numbers[at + 1] ?? 0) - 1];
    if (bucketKey === undefined || limit === undefined) return undefined;
    const holdId = limit.holdSeconds === 0 ? "" : (this.holds.find((hold) => hold.at === at)?.holdId ?? "");
    return { bucketKey, limit, mode: this.numbers[at + 4] ?? 0, cost: this.numbers[at + 5] ?? 0, holdId };
  }

  /** Whether a reply may report holds that have ended. */
  get asksOfHolds(): boolean {
    return this.holds.length > 0;
  }

  /** Counts holds that have ended, for the bucket whose key has this place. */
  countEnded(place: number, count: number): void {
    const key = this.keyAt(place);
    const take = this.holds.find(({ bucketKey }) => bucketKey === key);
    if (take !== undefined) take.stats.holdsExpired += count;
  }

  /** The key at this place, counted from 1. */
  keyAt(place: number): string {
    return this.keys[place - 1] ?? "";
  }

  /** Writes into each group's head the latest server time at which it may still pay. */
  protected writeLatest(latestOf: (batched: BatchedGroup) => number): void {
    for (const batched of this.groups) this.numbers[batched.at + 1] = latestOf(batched);
  }

  /** The key's place among the batch's keys, counted from 1. Adds a key that is new. */
  placeOfKey(bucketKey: string): number {
    let place = this.#keyPlaces.get(bucketKey);
    if (place === undefined) {
      place = this.keys.push(bucketKey);
      this.keyBytes += bucketKey.length;
      this.#keyPlaces.set(bucketKey, place);
    }
    return place;
  }

  /** The limit's place among the batch's limits, counted from 1. */
  protected placeOfLimit(limit: Limit): number {
    let place = this.#limitPlaces.get(limit);
    if (place === undefined) {
      place = this.limits.push(limit);
      this.#limitPlaces.set(limit, place);
    }
    return place;
  }
}

/** Whether another limit's place stands in the numbers instead of the take's kind, which the store does not need. */
function hasLimitAsKind({ mode }: Take): boolean {
  return mode === Mode.guarantee || mode === Mode.giveBack;
}

function flagsOf(group: TakeGroup): number {
  return group.hasSpareQuota ? 1 : 0;
}
