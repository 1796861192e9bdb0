// Counts the processes that share a store's buckets: each reports itself every second, and counts those that have
// reported lately. The store keeps the register.

import { randomUUID } from "node:crypto";
import type { Clock } from "../../base/clock.ts";
import { MICROS_PER_MILLI } from "../../base/units.ts";
import { waitAtMost } from "../../base/wait-at-most.ts";
import type { ProcessCounts } from "../../engine/domain/store.ts";
import { PROCESS_GONE_MS, type ProcessRegister } from "../process-register.ts";

const BEAT_MS = 1_000;
/** Second report of a process, so that processes that start together soon count each other. */
const SECOND_BEAT_MS = 300;
/** Longest wait for leaving: a process that can't leave is counted as gone later. */
const LEAVE_MS_MAX = 250;

/** Counts from the first question on. A failed report leaves the count as it was. */
export class ProcessCount implements ProcessCounts {
  readonly #register: Pick<ProcessRegister, "beat" | "leave">;
  readonly #clock: Clock;
  readonly #id = randomUUID();
  readonly #membership = new Membership();
  #timer: NodeJS.Timeout | undefined;
  #secondBeat: NodeJS.Timeout | undefined;
  #isStopped = false;

  constructor(register: Pick<ProcessRegister, "beat" | "leave">, clock: Clock) {
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

  /** Reports this process and counts, now; does nothing before the first question. */
  async beat(): Promise<void> {
    if (this.#timer === undefined) return;
    const sentUs = this.#clock.nowUs();
    const own = { id: this.#id, name: "", version: 0, calls: [] };
    const answer = await this.#register.beat(own).catch(() => undefined);
    if (answer === undefined) return;
    const count = answer.all.filter(({ name }) => name === "").length;
    this.#membership.onAnswer({ count, isNew: answer.isNew }, sentUs, this.#clock.nowUs());
  }

  /** Stops counting, and tells the others that this process ends. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    if (this.#timer === undefined) return;
    clearInterval(this.#timer);
    clearTimeout(this.#secondBeat);
    this.#timer = undefined;
    await waitAtMost(
      LEAVE_MS_MAX,
      this.#register.leave(this.#id).catch(() => undefined),
    );
  }

  #start(): void {
    if (this.#timer !== undefined || this.#isStopped) return;
    this.#timer = setInterval(() => void this.beat(), BEAT_MS).unref();
    this.#secondBeat = setTimeout(() => void this.beat(), SECOND_BEAT_MS).unref();
    void this.beat();
  }
}

/** A process that has been silent for this long is removed from the register. */
export const GONE_AFTER_US = PROCESS_GONE_MS * MICROS_PER_MILLI;
/** A process that has counted within this time hands out by that count. */
const FRESH_US = 2_500 * MICROS_PER_MILLI;
/**
 * A process on the register for this long is in every count that is fresh, and was when the leases of such counts
 * began.
 */
const KNOWN_AFTER_US = 2_800 * MICROS_PER_MILLI;

/** The register's answer to a report. */
export interface LiveProcesses {
  /** Number of live processes, with this one. */
  readonly count: number;
  /** True if the process was not on the register before this report. */
  readonly isNew: boolean;
}

/**
 * What a process can know about the others that share its store, from its own reports alone. Pure; times are of its own
 * clock.
 *
 * A count that is too high costs room: each process grants less than it could. A count that is too low would grant too
 * much. So the count rises at once, and falls only when this process has been on the register without a gap for
 * GONE_AFTER_US and has seen no higher count in that time: by then every live process has reported, whatever happened
 * to the register's data. And a process hands nothing out in advance until all others that do so have counted it.
 */
export class Membership {
  #count = 1;
  /** When the last answered report was sent. */
  #countedUs = Number.NEGATIVE_INFINITY;
  /** Since when this process has been on the register without a gap. */
  #sinceUs = Number.POSITIVE_INFINITY;
  /** Since when all counts were lower than `#count`, and the highest of them. */
  #fewerSinceUs = 0;
  #fewer = 0;

  /** Number of live processes: at least as many as hand anything out. 1 until the first answer. */
  get count(): number {
    return this.#count;
  }

  /**
   * The divisor for what is handed out in advance: at any moment all processes that do so divide by at least their
   * number. Infinity while that is not sure.
   */
  sureCount(nowUs: number): number {
    const isSure = nowUs - this.#sinceUs >= KNOWN_AFTER_US && nowUs - this.#countedUs <= FRESH_US;
    return isSure ? this.#count : Number.POSITIVE_INFINITY;
  }

  /** Takes the answer to the report sent at `sentUs`. */
  onAnswer({ count, isNew }: LiveProcesses, sentUs: number, nowUs: number): void {
    // A process that missed the answer to its first report does not know how long it has been on the register.
    if (isNew || this.#sinceUs === Number.POSITIVE_INFINITY) {
      this.#sinceUs = nowUs;
      this.#fewerSinceUs = nowUs;
      this.#fewer = 0;
    }
    this.#countedUs = Math.max(this.#countedUs, sentUs);
    this.#fewer = Math.max(this.#fewer, count);
    const mayFall = nowUs - this.#fewerSinceUs >= GONE_AFTER_US;
    if (count < this.#count && !mayFall) return;
    this.#count = count < this.#count ? this.#fewer : count;
    this.#fewerSinceUs = nowUs;
    this.#fewer = 0;
  }
}
