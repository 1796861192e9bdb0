// How many processes share a store's buckets, and which of them this one is: each reports itself every second and counts
// those that have done so lately. Where that is written down is the store's business; what follows from it is membership.ts.

import { randomUUID } from "node:crypto";
import type { Clock } from "../../core/clock.ts";
import { MICROS_PER_MILLI } from "../../core/units.ts";
import { waitAtMost } from "../../core/wait-at-most.ts";
import type { ProcessCounts } from "../store.ts";
import { GONE_AFTER_US, Membership, type ProcessPlace } from "./membership.ts";

const BEAT_MS = 1_000;
/** Processes that start together count each other this soon. */
const SECOND_BEAT_MS = 300;
/** Leaving waits no longer than this: a process that can't report its end is counted as gone later. */
const LEAVE_MS_MAX = 250;

/** Where the processes that share a store report themselves. */
export interface ProcessRegister {
  /**
   * Notes that the process of this id lives, forgets those that were silent for `goneAfterMs`, and counts the others and
   * the place of this one in their order. Never rejects: undefined if it can't be done now.
   */
  report(id: string, goneAfterMs: number): Promise<ProcessPlace | undefined>;
  /** Takes the process out, so that the others need not wait for its absence to show. Never rejects. */
  leave(id: string): Promise<void>;
}

/** Counts once the first question was asked. A report that fails leaves the count as it was. */
export class ProcessCount implements ProcessCounts {
  readonly #register: ProcessRegister;
  readonly #clock: Clock;
  readonly #id = randomUUID();
  readonly #membership = new Membership();
  #timer: NodeJS.Timeout | undefined;
  #secondBeat: NodeJS.Timeout | undefined;
  #isStopped = false;

  constructor(register: ProcessRegister, clock: Clock) {
    this.#register = register;
    this.#clock = clock;
  }

  count(): number {
    this.#start();
    return this.#membership.count;
  }

  sureCount(): number {
    this.#start();
    return this.#membership.sureCount(this.#clock.nowUs());
  }

  index(): number {
    this.#start();
    return this.#membership.index;
  }

  /** Reports this process and counts, now. Does nothing while not started. */
  async beat(): Promise<void> {
    if (this.#timer === undefined) return;
    const sentUs = this.#clock.nowUs();
    this.#membership.onReport(sentUs);
    const place = await this.#register.report(this.#id, GONE_AFTER_US / MICROS_PER_MILLI);
    if (place !== undefined) this.#membership.onAnswer(place, sentUs, this.#clock.nowUs());
  }

  /** Counts no more, and tells the others that this process goes. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    if (this.#timer === undefined) return;
    clearInterval(this.#timer);
    clearTimeout(this.#secondBeat);
    this.#timer = undefined;
    await waitAtMost(LEAVE_MS_MAX, this.#register.leave(this.#id));
  }

  #start(): void {
    if (this.#timer !== undefined || this.#isStopped) return;
    this.#timer = setInterval(() => void this.beat(), BEAT_MS).unref();
    this.#secondBeat = setTimeout(() => void this.beat(), SECOND_BEAT_MS).unref();
    void this.beat();
  }
}
