// Measures how long this process holds its event loop: on a busy machine what it used of the processor says more than the clock.

import { openSync, readSync } from "node:fs";

/** Linux's account of this thread: nanoseconds on a processor, nanoseconds of waiting for one, and turns. Undefined elsewhere. */
const ACCOUNT = openAccount();
const line = Buffer.alloc(80);

function openAccount(): number | undefined {
  try {
    return openSync("/proc/thread-self/schedstat", "r");
  } catch {
    return undefined;
  }
}

/** Milliseconds that this thread has waited for a processor that others had. */
function waitedMs(): number {
  if (ACCOUNT === undefined) return 0;
  const length = readSync(ACCOUNT, line, 0, line.length, 0);
  return Number(line.toString("latin1", 0, length).split(" ")[1]) / 1_000_000;
}

/** Time in which this thread was busy; less than passed if others had the processor meanwhile. */
export class BusyWatch {
  readonly #startMs = performance.now();
  readonly #startCpu = process.cpuUsage();
  readonly #startWaitedMs = waitedMs();

  /** Milliseconds so far. */
  ms(): number {
    const { user, system } = process.cpuUsage(this.#startCpu);
    const passedMs = performance.now() - this.#startMs - (waitedMs() - this.#startWaitedMs);
    // What the process used counts its other threads as well, which collect garbage and read files.
    return Math.min(passedMs, (user + system) / 1_000);
  }
}

/** How much of its time this process was kept from running: on a busy machine whatever it waits for is late by as much. */
export class LateWatch {
  static readonly #TICK_MS = 5;
  #lastMs = performance.now();
  #lateMs = 0;
  readonly #timer = setInterval(() => {
    const nowMs = performance.now();
    const lateMs = nowMs - this.#lastMs - LateWatch.#TICK_MS;
    // A quiet machine's timers are late by a millisecond or two.
    if (lateMs > LateWatch.#TICK_MS) this.#lateMs += lateMs;
    this.#lastMs = nowMs;
  }, LateWatch.#TICK_MS);

  /** Ends the watch; milliseconds in all. */
  stop(): number {
    clearInterval(this.#timer);
    return this.#lateMs;
  }
}

/**
 * Calls `act` after `ms` in which this process could run: a pause of its own counts as one tick, so that what is served by the
 * same process has its turns. Returns what takes that back.
 */
export function afterOwnTime(ms: number, act: () => void): () => void {
  const TICK_MS = 5;
  let ticks = Math.ceil(ms / TICK_MS);
  const timer = setInterval(() => {
    if (--ticks > 0) return;
    clearInterval(timer);
    act();
  }, TICK_MS);
  return () => clearInterval(timer);
}

/** The longest time from one turn of the event loop to the next; turns within a millisecond count as one. */
export class TurnWatch {
  #longestMs = 0;
  #busy = new BusyWatch();
  // To look in every turn would keep a processor busy where the loop waits.
  readonly #timer = setInterval(() => this.#note(), 1);

  /** Ends the watch; milliseconds. */
  stop(): number {
    clearInterval(this.#timer);
    this.#note();
    return this.#longestMs;
  }

  #note(): void {
    this.#longestMs = Math.max(this.#longestMs, this.#busy.ms());
    this.#busy = new BusyWatch();
  }
}

/** Milliseconds that the fixed work takes on the machine for which bounds of turns are meant: a core of 3 GHz whose other half is busy. */
const FIXED_WORK_MS = 8;
const FIXED_TRIES = 10;

/** What a bound on such a machine is on this one, as busy as it is now. Never less, so only measured for what took longer. */
export function onThisMachine(ms: number, tookMs: number): number {
  if (tookMs < ms) return ms;
  const times = Array.from({ length: FIXED_TRIES }, () => {
    const watch = new BusyWatch();
    fixedWork();
    return watch.ms();
  });
  // The median: the least of short pieces of work is further from the usual one than the least of long turns is.
  const medianMs = times.sort((a, b) => a - b)[FIXED_TRIES >> 1] as number;
  return ms * Math.max(1, medianMs / FIXED_WORK_MS);
}

/** What a turn does mostly: texts are made, hashed and found, and bytes are read. */
function fixedWork(): number {
  const found = new Map<string, number>();
  const bytes = Buffer.alloc(64, "a");
  for (let i = 0; i < 16_000; i++) {
    bytes.writeUInt32LE(i % 4_000, 20);
    const text = bytes.latin1Slice(0, 40);
    found.set(text, (found.get(text) ?? 0) + bytes.indexOf("b"));
  }
  return found.size;
}
