// How many processes share a store's buckets, and which of them this one is: each reports itself every few seconds and
// counts those that have done so lately. Where that is written down is the store's business.

import { randomUUID } from "node:crypto";

const BEAT_MS = 3_000;
/** Processes that start together count each other this soon. */
const SECOND_BEAT_MS = 300;
/** A process that has missed three beats is taken as gone. */
const GONE_AFTER_MS = 10_000;
/** Leaving waits no longer than this: who can't say goodbye shows as gone by itself. */
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

/** Live processes, this one included, and its place among them, from 0 on. */
export interface ProcessPlace {
  readonly count: number;
  readonly index: number;
}

/** Counts once started, by `start` or by the first question. A report that fails leaves the count as it was. */
export class ProcessCount {
  readonly #register: ProcessRegister;
  readonly #id = randomUUID();
  #timer: NodeJS.Timeout | undefined;
  #secondBeat: NodeJS.Timeout | undefined;
  #isStopped = false;
  #place: ProcessPlace = { count: 1, index: -1 };

  constructor(register: ProcessRegister) {
    this.#register = register;
  }

  /** As Store.processCount; 1 until the first count. */
  count(): number {
    this.start();
    return this.#place.count;
  }

  /** As Store.processIndex; -1 until the first count. */
  index(): number {
    this.start();
    return this.#place.index;
  }

  /** Begins to count. Does nothing if that has begun, or was stopped. */
  start(): void {
    if (this.#timer !== undefined || this.#isStopped) return;
    this.#timer = setInterval(() => void this.beat(), BEAT_MS).unref();
    this.#secondBeat = setTimeout(() => void this.beat(), SECOND_BEAT_MS).unref();
    void this.beat();
  }

  /** Reports this process and counts, now. Does nothing while not started. */
  async beat(): Promise<void> {
    if (this.#timer === undefined) return;
    this.#place = (await this.#register.report(this.#id, GONE_AFTER_MS)) ?? this.#place;
  }

  /** Counts no more, and tells the others that this process goes. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    if (this.#timer === undefined) return;
    clearInterval(this.#timer);
    clearTimeout(this.#secondBeat);
    this.#timer = undefined;
    const late = new Promise((resolve) => setTimeout(resolve, LEAVE_MS_MAX).unref());
    await Promise.race([this.#register.leave(this.#id), late]);
  }
}
