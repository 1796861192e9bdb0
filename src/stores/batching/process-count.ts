// Counts the processes that share a store's buckets, and finds this one's place among them: each reports itself every second, and counts those
// that have reported lately. The store keeps the register; membership.ts concludes from its answers.

import { randomUUID } from "node:crypto";
import type { Clock } from "../../engine/base/clock.ts";
import { MICROS_PER_MILLI } from "../../engine/base/units.ts";
import { waitAtMost } from "../../engine/base/wait-at-most.ts";
import type { ProcessCounts } from "../store.ts";
import { GONE_AFTER_US, Membership, type ProcessPlace } from "./membership.ts";

const BEAT_MS = 1_000;
/** Second report of a process, so that processes that start together soon count each other. */
const SECOND_BEAT_MS = 300;
/** Longest wait for leaving: a process that can't leave is counted as gone later. */
const LEAVE_MS_MAX = 250;

/** The register of the processes that share a store. */
export interface ProcessRegister {
  /**
   * Notes that the process lives, forgets those that were silent for `goneAfterMs`, counts the live ones, and finds this one's place. Never
   * rejects; resolves to undefined if that is impossible now.
   */
  report(id: string, goneAfterMs: number): Promise<ProcessPlace | undefined>;
  /** Removes the process, so that the others need not wait until it is forgotten. Never rejects. */
  leave(id: string): Promise<void>;
}

/** Counts from the first question on. A failed report leaves the count as it was. */
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

  /** Reports this process and counts, now; does nothing before the first question. */
  async beat(): Promise<void> {
    if (this.#timer === undefined) return;
    const sentUs = this.#clock.nowUs();
    this.#membership.onReport(sentUs);
    const place = await this.#register.report(this.#id, GONE_AFTER_US / MICROS_PER_MILLI);
    if (place !== undefined) this.#membership.onAnswer(place, sentUs, this.#clock.nowUs());
  }

  /** Stops counting, and tells the others that this process ends. */
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
