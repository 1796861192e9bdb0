// Payments of one server that are to be given back: of calls that were answered without it, or that another server
// refused. Each travels as a group of one take, along with the takes of its queue. What the server did not run is sent
// again; what may have run never is.

import type { Clock } from "../../base/clock.ts";
import type { Limit } from "../../engine/domain/limit.ts";
import type { TakeListener } from "../../engine/domain/store.ts";
import { Mode, TakeGroup, Verdict } from "../../engine/domain/take.ts";
import type { StoreObserver } from "../store-observer.ts";
import { RetryPause } from "./retry-pause.ts";

/** A payment that is to be undone, in the window in which it was paid. */
export interface Receipt {
  readonly bucketKey: string;
  readonly limit: Limit;
  /** The cost that was paid, without capped hits; 1 to COST_ABOVE_ALL. */
  readonly cost: number;
  /** The store's time of the payment, in microseconds. */
  readonly paidAtUs: number;
  /** The hold that it opened, if any (Take.holdId). */
  readonly holdId: string;
  /** Since when it waits, in microseconds of this process's Clock. */
  readonly sinceUs: number;
  /** The queue that it travels in (Batch.queue). */
  readonly queue: number;
}

interface GiveBacksOptions {
  readonly clock: Clock;
  readonly observer: Pick<StoreObserver, "gaveBack" | "keptPaid">;
  /** Greatest weight under way; takes wait for no more. */
  readonly weightMax: number;
}

/** How they travel to their server; the Intake does it. */
export interface GiveBackRoad {
  /** Whether the server is up and answers: a failing one gets only what it must. */
  readonly isWell: boolean;
  /** Has the group sent along with the takes of its queue. */
  gather(group: TakeGroup, then: TakeListener, queue: number): void;
}

/** Most waiting receipts. Beyond it the oldest are given up; their buckets have less room until they refill. */
const WAITING_MAX = 10_000;
/** Longest wait of a receipt, in microseconds: ten minutes. Then it is given up. */
const WAIT_US_MAX = 600_000_000;

/** Bounded in number and in time, because the server may be away for long. */
export class GiveBacks {
  readonly #options: GiveBacksOptions;
  readonly #road: GiveBackRoad;
  /** In the order in which they came. */
  readonly #waiting: Receipt[] = [];
  /** Weight of those under way. */
  #weight = 0;
  readonly #pause = new RetryPause();
  /** Set while receipts that the server did not run wait for the end of a pause. */
  #timer: NodeJS.Timeout | undefined;
  #hasEnded = false;

  constructor(options: GiveBacksOptions, road: GiveBackRoad) {
    this.#options = options;
    this.#road = road;
  }

  /** Whether nothing is left to give back. */
  get isDone(): boolean {
    return this.#waiting.length === 0 && this.#weight === 0;
  }

  /** Sends it, or has it wait behind others. */
  add(receipt: Receipt): void {
    this.#keep(receipt);
    this.sendWaiting();
  }

  /** Call this when the server may be well again: sends as many waiting receipts as may be under way, or `all`. */
  sendWaiting(all = false): void {
    if (this.#timer !== undefined || !this.#road.isWell) return;
    const nowUs = this.#options.clock.nowUs();
    let count = 0;
    for (const receipt of this.#waiting) {
      if (!all && this.#weight >= this.#options.weightMax) break;
      count++;
      if (nowUs - receipt.sinceUs > WAIT_US_MAX) this.#options.observer.keptPaid(1);
      else this.#send(receipt);
    }
    this.#waiting.splice(0, count);
  }

  /** Removes and returns the waiting receipts. */
  drain(): readonly Receipt[] {
    return this.#waiting.splice(0);
  }

  /** Gives up the waiting receipts, and those that the server refuses later. */
  end(): void {
    this.#hasEnded = true;
    clearTimeout(this.#timer);
    for (const receipt of this.drain()) this.#keep(receipt);
  }

  #keep(receipt: Receipt): void {
    const { observer } = this.#options;
    if (this.#hasEnded) observer.keptPaid(1);
    else if (this.#waiting.push(receipt) > WAITING_MAX)
      observer.keptPaid(this.#waiting.splice(0, WAITING_MAX / 10).length);
  }

  #send(receipt: Receipt): void {
    const { bucketKey, limit, cost, paidAtUs, holdId, queue } = receipt;
    const group = new TakeGroup();
    Object.assign(group.add(limit), { bucketKey, mode: Mode.giveBack, cost, paidAtUs, holdId });
    this.#weight += group.weight;
    this.#road.gather(group, { answered: () => this.#onOutcome(receipt, group) }, queue);
  }

  #onOutcome(receipt: Receipt, { verdict, failure, weight }: TakeGroup): void {
    const { observer } = this.#options;
    this.#weight -= weight;
    if (verdict !== Verdict.failed) {
      observer.gaveBack(1);
      this.#pause.reset();
    } else if (failure?.isOutcomeUnknown) observer.keptPaid(1);
    else {
      this.#keep(receipt);
      this.#timer ??= setTimeout(() => {
        this.#timer = undefined;
        this.sendWaiting();
      }, this.#pause.next()).unref();
    }
    this.sendWaiting();
  }
}
