// Numbers that change often, in memory that the main thread and all workers share: each is written where it changes and read
// wherever it is needed, without a message.

import { LISTENER_NAMES, type ListenerName } from "./messages.ts";

/** What a worker does, as the main thread sees it. */
const WORKER_STATUSES = ["starting", "ready", "not ready"] as const;
export type WorkerStatus = (typeof WORKER_STATUSES)[number];

/** Counts of a worker: how often it has shown that it lives, its status by number, and the connections that it holds by listener. */
const COUNTS = ["beats", "status", ...LISTENER_NAMES] as const;
type CountField = "beats" | "status" | ListenerName;

/** What one thread measures: a worker its open streams (mean over seconds), the main thread restarts and moves. */
const MEASURES = ["openStreams", "restarts", "moves"] as const;
type MeasureField = (typeof MEASURES)[number];

const BYTES_PER_ROW = COUNTS.length * Int32Array.BYTES_PER_ELEMENT + MEASURES.length * Float64Array.BYTES_PER_ELEMENT;
/** The row of the main thread; workers are numbered from 1. */
const MAIN = 0;

export class SharedNumbers {
  readonly buffer: SharedArrayBuffer;
  /** Number of workers. */
  readonly count: number;
  readonly #counts: Int32Array;
  readonly #measures: Float64Array;

  /** Of this many workers, or those that another thread has made. */
  constructor(workers: number | SharedArrayBuffer) {
    this.buffer = typeof workers === "number" ? new SharedArrayBuffer((workers + 1) * BYTES_PER_ROW) : workers;
    const rows = this.buffer.byteLength / BYTES_PER_ROW;
    this.count = rows - 1;
    this.#measures = new Float64Array(this.buffer, 0, rows * MEASURES.length);
    this.#counts = new Int32Array(this.buffer, this.#measures.byteLength);
  }

  of(worker: number, field: CountField): number {
    return Atomics.load(this.#counts, worker * COUNTS.length + COUNTS.indexOf(field));
  }

  add(worker: number, field: CountField, delta: number): void {
    Atomics.add(this.#counts, worker * COUNTS.length + COUNTS.indexOf(field), delta);
  }

  statusOf(worker: number): WorkerStatus {
    return WORKER_STATUSES[this.of(worker, "status")] ?? "starting";
  }

  setStatus(worker: number, status: WorkerStatus): void {
    const at = worker * COUNTS.length + COUNTS.indexOf("status");
    Atomics.store(this.#counts, at, WORKER_STATUSES.indexOf(status));
  }

  /** What a worker has measured, or the main thread unless `worker` is given. Each has one writer, so no atomic access is needed. */
  measured(field: MeasureField, worker = MAIN): number {
    return this.#measures[worker * MEASURES.length + MEASURES.indexOf(field)] ?? 0;
  }

  measure(field: MeasureField, value: number, worker = MAIN): void {
    this.#measures[worker * MEASURES.length + MEASURES.indexOf(field)] = value;
  }

  /** A worker has ended: the next one of this number begins at 0. */
  clear(worker: number): void {
    this.#measures.fill(0, worker * MEASURES.length, (worker + 1) * MEASURES.length);
    for (let i = 0; i < COUNTS.length; i++) Atomics.store(this.#counts, worker * COUNTS.length + i, 0);
  }
}
