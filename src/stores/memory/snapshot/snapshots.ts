// The snapshots of a memory store during a process: one is read at the start, and others are written at intervals and at the end. No trouble
// with a snapshot stops takes: it is counted, logged once, and shown.

import { rmSync } from "node:fs";
import { stat } from "node:fs/promises";
import { dirname } from "node:path";
import { Worker } from "node:worker_threads";
import type { Clock } from "../../../engine/base/clock.ts";
import type { Log } from "../../../engine/base/log.ts";
import { errorMessage } from "../../../engine/base/thrown.ts";
import { MICROS_PER_SECOND } from "../../../engine/base/units.ts";
import { waitAtMost } from "../../../engine/base/wait-at-most.ts";
import { hashKeyInUse, useHashKey } from "../../../engine/domain/key-bytes.ts";
import { Buckets } from "../buckets.ts";
import { type SharedStore, SNAPSHOT_THREAD, StoreMemory } from "../store-memory.ts";
import { draftOf, hasFile, setSnapshotAside } from "./snapshot-file.ts";
import type { ReadSnapshot } from "./snapshot-format.ts";
import { LockHeldError, SnapshotLock } from "./snapshot-lock.ts";
import { SnapshotStatus } from "./snapshot-status.ts";
import type { SnapshotDone, SnapshotJob } from "./snapshot-thread.ts";

const THREAD = new URL("./snapshot-thread.js", import.meta.url);

interface SnapshotsOptions {
  readonly store: SharedStore;
  readonly clock: Clock;
  readonly file: string;
  readonly intervalMs: number;
  readonly log: Pick<Log, "info" | "warn">;
}

/** Reads and writes the snapshots of one process. */
export class Snapshots {
  readonly #options: SnapshotsOptions;
  /** Mark of the file that this process read or wrote last (snapshot-file.ts); undefined if it did neither. */
  #mark: string | undefined;
  readonly status = new SnapshotStatus();
  #lock: SnapshotLock | undefined;
  #timer: NodeJS.Timeout | undefined;
  #underWay: Promise<void> | undefined;
  /** Of the snapshot under way. */
  #thread: Worker | undefined;
  /** How often what was under way was given up. */
  #stops = 0;

  constructor(options: SnapshotsOptions) {
    this.#options = options;
  }

  /**
   * Fills the store from the file and begins to write at intervals. To be called before any bucket key is hashed. Rejects with LockHeldError
   * if another process has the file.
   */
  async open(): Promise<void> {
    await this.#trying(() => this.#needLock());
    // Read even without the lock: in a folder where no lock can be made nobody can write.
    await this.#trying(() => this.#read());
    // Checked again, because several processes may have removed a dead process's lock at once, and one of them another's new lock.
    if (this.#lock !== undefined) await this.#trying(() => this.#needLock());
    this.#timer = setInterval(() => this.#writeInTime(), this.#options.intervalMs).unref();
  }

  async #trying(act: () => Promise<void>): Promise<void> {
    try {
      await act();
    } catch (error) {
      if (error instanceof LockHeldError) throw error;
      this.#failed(error);
    }
  }

  #writeInTime(): void {
    const { intervalMs } = this.#options;
    if (this.#underWay === undefined) void this.write();
    else
      this.#failed(
        new Error(`expected a snapshot to be written within ${intervalMs} ms, it still is: the disk is slow or hangs`),
      );
  }

  /** Writes a snapshot now, unless one is under way. Never rejects. */
  write(): Promise<void> {
    this.#underWay ??= this.#write().finally(() => {
      this.#underWay = undefined;
    });
    return this.#underWay;
  }

  /** Writes the last snapshot and releases the lock, within `limitMs` milliseconds; to be called when no more takes come. */
  async close(limitMs: number): Promise<void> {
    const last = this.#last();
    if (await waitAtMost(limitMs, last)) return;
    await this.#stop();
    this.#failed(
      new Error(`expected the last snapshot within ${limitMs} ms; what was decided since the one before is lost`),
    );
  }

  async #last(): Promise<void> {
    const stops = this.#stops + 1;
    // A snapshot under way would lack the latest takes.
    await this.#stop();
    if (this.#stops === stops) await this.write();
    await this.#lock?.release();
  }

  /** Ends without a last snapshot; releases the lock. */
  async abandon(): Promise<void> {
    await this.#stop();
    await this.#lock?.release();
  }

  /** Gives up the snapshot under way. */
  async #stop(): Promise<void> {
    clearInterval(this.#timer);
    this.#stops++;
    void this.#thread?.terminate();
    await this.#underWay;
  }

  async #needLock(): Promise<void> {
    const { file, clock } = this.#options;
    // Checked first, because for a missing folder libuv reports EACCES.
    await stat(dirname(file));
    if (this.#lock === undefined || !(await this.#lock.isHeld()))
      this.#lock = await SnapshotLock.take(file, clock.nowUs());
  }

  async #read(): Promise<void> {
    const { clock, file } = this.#options;
    if (!hasFile(file)) return;
    const startUs = clock.nowUs();
    try {
      const done = await this.#run("read", startUs);
      if (done?.read === undefined) return;
      useHashKey(Buffer.from(done.read.hashKey));
      this.#mark = done.mark;
      this.#tellRead(done, done.read, startUs);
    } catch (error) {
      this.#setAside(errorMessage(error));
    }
  }

  /** Has a thread read or write. Undefined if it was given up. */
  async #run(kind: SnapshotJob["kind"], nowUs: number): Promise<SnapshotDone | undefined> {
    const { store, file: path } = this.#options;
    const job: SnapshotJob = { kind, path, store, nowUs, hashKey: hashKeyInUse(), mark: this.#mark };
    const thread = new Worker(THREAD, { workerData: job });
    const stops = this.#stops;
    this.#thread = thread;
    let done: SnapshotDone | undefined;
    try {
      done = await new Promise((resolve, reject) => {
        thread.once("message", resolve);
        thread.once("error", reject);
        thread.once("exit", (code) => {
          if (this.#stops > stops) resolve(undefined);
          else reject(new Error(`the thread of the snapshot ended with ${code}`));
        });
      });
      return done;
    } finally {
      await thread.terminate();
      this.#thread = undefined;
      if (done === undefined) this.#undo(kind);
    }
  }

  /** Undoes what a thread that has ended before its end has begun: half a snapshot in memory, or in a file. */
  #undo(kind: SnapshotJob["kind"]): void {
    const { store, file } = this.#options;
    const memory = new StoreMemory(store, SNAPSHOT_THREAD);
    memory.endThread();
    if (kind === "read") new Buckets(memory, { onEvicted: () => undefined }).clear();
    else rmSync(draftOf(file), { force: true });
  }

  #setAside(reason: string): void {
    const { log, file } = this.#options;
    this.status.count("refused");
    const message = "can't use the snapshot; all buckets start full";
    try {
      log.warn({ file, reason, kept_as: setSnapshotAside(file) }, message);
    } catch (error) {
      log.warn({ file, reason, kept_as: file }, message);
      throw error;
    }
  }

  #tellRead({ bytes }: SnapshotDone, read: ReadSnapshot, startUs: number): void {
    const { clock, log, file } = this.#options;
    const { kept: buckets, ended, withoutRoom, beganAtUs } = read;
    const ageSeconds = (startUs - beganAtUs) / MICROS_PER_SECOND;
    const seconds = (clock.nowUs() - startUs) / MICROS_PER_SECOND;
    this.status.note({ beganAtUs, bytes, seconds: 0 });
    const fields = { file, buckets, ended, age_seconds: ageSeconds, seconds };
    if (withoutRoom > 0)
      log.warn(
        { ...fields, without_room: withoutRoom },
        "SLIDING_LOG_BYTES_MAX is too small for some sliding logs of the snapshot; they start full",
      );
    else if (ageSeconds < 0)
      log.warn(fields, "the snapshot is newer than the clock, which has stepped back; nothing is granted for that");
    else log.info(fields, "buckets continue from the snapshot");
  }

  async #write(): Promise<void> {
    const { clock, log, file } = this.#options;
    const stops = this.#stops;
    const startUs = clock.nowUs();
    try {
      await this.#needLock();
      if (this.#stops > stops) return;
      const done = await this.#run("write", startUs);
      if (done === undefined) return;
      const seconds = (clock.nowUs() - startUs) / MICROS_PER_SECOND;
      this.#mark = done.mark;
      const { trouble, written } = this.status.read();
      if (trouble !== undefined) log.info({ file }, "writing snapshots again");
      this.status.note({
        beganAtUs: startUs,
        bytes: done.bytes,
        seconds,
        written: written + 1,
        trouble: undefined,
      });
    } catch (error) {
      if (this.#stops === stops) this.#failed(error);
    }
  }

  #failed(error: unknown): void {
    const { log, file } = this.#options;
    const reason =
      error instanceof LockHeldError
        ? `expected a file of this process alone, it is in use by ${error.message}`
        : errorMessage(error);
    this.status.count("failed");
    if (reason !== this.status.read().trouble)
      log.warn({ file, reason }, "can't keep a snapshot; calls are still decided");
    this.status.note({ trouble: reason });
  }
}
