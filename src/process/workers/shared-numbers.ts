// Numbers that change often, in memory that the main thread and all workers share: each is written where it changes and read
// wherever it is needed, without a message.

import { LISTENER_NAMES } from "./messages.ts";

/** What a worker does, as the main thread sees it. */
const WORKER_STATUSES = ["starting", "ready", "not ready"] as const;
export type WorkerStatus = (typeof WORKER_STATUSES)[number];

/**
 * Of a worker how often it has shown that it lives, its status by number, its open streams (mean over seconds, in thousandths), and the
 * connections that it holds by listener; of the main thread restarts.
 */
const FIELDS = ["beats", "status", "streamThousandths", "restarts", ...LISTENER_NAMES] as const;
type Field = (typeof FIELDS)[number];

/** The row of the main thread; workers are numbered from 1. */
export const MAIN = 0;

export class SharedNumbers {
  readonly buffer: SharedArrayBuffer;
  /** Number of workers. */
  readonly count: number;
  readonly #cells: Int32Array;

  /** Of this many workers, or those that another thread has made. */
  constructor(workers: number | SharedArrayBuffer) {
    const bytesPerRow = FIELDS.length * Int32Array.BYTES_PER_ELEMENT;
    this.buffer = typeof workers === "number" ? new SharedArrayBuffer((workers + 1) * bytesPerRow) : workers;
    this.count = this.buffer.byteLength / bytesPerRow - 1;
    this.#cells = new Int32Array(this.buffer);
  }

  of(row: number, field: Field): number {
    return Atomics.load(this.#cells, row * FIELDS.length + FIELDS.indexOf(field));
  }

  add(row: number, field: Field, delta: number): void {
    Atomics.add(this.#cells, row * FIELDS.length + FIELDS.indexOf(field), delta);
  }

  #set(row: number, field: Field, value: number): void {
    Atomics.store(this.#cells, row * FIELDS.length + FIELDS.indexOf(field), value);
  }

  statusOf(worker: number): WorkerStatus {
    return WORKER_STATUSES[this.of(worker, "status")] ?? "starting";
  }

  setStatus(worker: number, status: WorkerStatus): void {
    this.#set(worker, "status", WORKER_STATUSES.indexOf(status));
  }

  openStreamsOf(worker: number): number {
    return this.of(worker, "streamThousandths") / 1_000;
  }

  setOpenStreams(worker: number, streams: number): void {
    this.#set(worker, "streamThousandths", Math.round(streams * 1_000));
  }

  /** A worker has ended: the next one of this number begins at 0. */
  clear(worker: number): void {
    for (const field of FIELDS) this.#set(worker, field, 0);
  }
}
