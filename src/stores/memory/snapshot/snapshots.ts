// The snapshots of a memory store during a process: one is read at the start, and others are written at intervals and at the end. No trouble
// with a snapshot stops takes: it is counted, logged once, and shown.

import { stat } from "node:fs/promises";
import { dirname } from "node:path";
import type { Clock } from "../../../engine/base/clock.ts";
import { errorMessage } from "../../../engine/base/thrown.ts";
import { MICROS_PER_SECOND } from "../../../engine/base/units.ts";
import { waitAtMost } from "../../../engine/base/wait-at-most.ts";
import { hashKeyInUse, useHashKey } from "../../../engine/domain/key-bytes.ts";
import type { SharedStore } from "../store-memory.ts";
import { NoFileError, setSnapshotAside } from "./snapshot-file.ts";
import type { ReadSnapshot } from "./snapshot-format.ts";
import { RunningJob, type SnapshotJob } from "./snapshot-job.ts";
import { LockHeldError, SnapshotLock } from "./snapshot-lock.ts";
import { SnapshotStatus } from "./snapshot-status.ts";

interface SnapshotLog {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
}

interface SnapshotsOptions {
  readonly store: SharedStore;
  readonly clock: Clock;
  readonly file: string;
  readonly intervalMs: number;
  readonly log: SnapshotLog;
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
  #job: RunningJob | undefined;
  /** True if the snapshot under way is given up; and if none is to be begun any more. */
  #isOver = false;
  #isClosed = false;

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
    if (await waitAtMost(limitMs, this.#last())) return;
    this.#isClosed = true;
    await this.#giveUp();
    this.#failed(
      new Error(`expected the last snapshot within ${limitMs} ms; what was decided since the one before is lost`),
    );
  }

  /** Ends without a last snapshot; releases the lock. */
  async abandon(): Promise<void> {
    clearInterval(this.#timer);
    await this.#giveUp();
    await this.#lock?.release();
  }

  async #last(): Promise<void> {
    clearInterval(this.#timer);
    // A snapshot under way would lack the latest takes.
    await this.#giveUp();
    await this.write();
    await this.#lock?.release();
  }

  async #giveUp(): Promise<void> {
    this.#isOver = true;
    await this.#job?.end();
    await this.#underWay;
    this.#isOver = false;
  }

  async #needLock(): Promise<void> {
    const { file, clock } = this.#options;
    // Checked first, because for a missing folder libuv reports EACCES.
    await stat(dirname(file));
    if (this.#lock === undefined || !(await this.#lock.isHeld()))
      this.#lock = await SnapshotLock.take(file, clock.nowUs());
  }

  async #read(): Promise<void> {
    const { clock, log, file } = this.#options;
    const startUs = clock.nowUs();
    try {
      const done = await this.#run("read", startUs);
      if (done?.read === undefined) return;
      useHashKey(Buffer.from(done.read.hashKey));
      this.#mark = done.mark;
      if (done.isOpenToOthers)
        log.warn(
          { file },
          "expected a snapshot that others can't read: who reads it can make keys that share a bucket",
        );
      this.#tellRead(done.read, startUs);
    } catch (error) {
      if (error instanceof NoFileError) throw error;
      this.#setAside(reasonOf(error));
    }
  }

  async #run(kind: SnapshotJob["kind"], nowUs: number): Promise<Awaited<RunningJob["done"]>> {
    const { store, file: path } = this.#options;
    this.#job = new RunningJob({ kind, path, store, nowUs, hashKey: hashKeyInUse(), mark: this.#mark });
    try {
      return await this.#job.done;
    } finally {
      this.#job = undefined;
    }
  }

  #setAside(reason: string): void {
    const { log, file } = this.#options;
    this.status.count("refused");
    const message = "the snapshot can't be used, all buckets start anew";
    try {
      const keptAs = setSnapshotAside(file);
      log.warn({ file, reason, keptAs }, message);
    } catch (error) {
      log.warn({ file, reason, keptAs: file }, message);
      throw error;
    }
  }

  #tellRead(read: ReadSnapshot, startUs: number): void {
    const { clock, log, file } = this.#options;
    const { kept: buckets, ended, withoutRoom, bytes, beganAtUs } = read;
    const ageSeconds = (startUs - beganAtUs) / MICROS_PER_SECOND;
    const seconds = (clock.nowUs() - startUs) / MICROS_PER_SECOND;
    this.status.noteFile(beganAtUs, bytes, 0);
    const fields = { file, buckets, ended, ageSeconds, seconds };
    if (withoutRoom > 0)
      log.warn(
        { ...fields, withoutRoom },
        "some sliding logs of the snapshot start anew: SLIDING_LOG_BYTES_MAX has no room for them",
      );
    else if (ageSeconds < 0)
      log.warn(fields, "the snapshot is of a later time than now: the clock has stepped back, which grants nothing");
    else log.info(fields, "buckets continue from the snapshot");
  }

  async #write(): Promise<void> {
    const { clock, log, file } = this.#options;
    const startUs = clock.nowUs();
    try {
      await this.#needLock();
      if (this.#isOver || this.#isClosed) return;
      const done = await this.#run("write", startUs);
      if (done === undefined) return;
      const seconds = (clock.nowUs() - startUs) / MICROS_PER_SECOND;
      this.#mark = done.mark;
      this.status.noteFile(startUs, done.bytes, seconds);
      this.status.count("written");
      if (this.status.trouble !== undefined) log.info({ file, ...done.counts }, "snapshots are written again");
      this.status.trouble = undefined;
    } catch (error) {
      if (!this.#isOver) this.#failed(error);
    }
  }

  #failed(error: unknown): void {
    const { log, file } = this.#options;
    const reason = reasonOf(error);
    this.status.count("failed");
    if (reason !== this.status.trouble)
      log.warn({ file, reason }, "no snapshot could be kept; calls are decided all the same");
    this.status.trouble = reason;
  }
}

function reasonOf(error: unknown): string {
  if (error instanceof LockHeldError) return `expected a file of this process alone, it is in use by ${error.message}`;
  if (error instanceof NoFileError) return error.message;
  return errorMessage(error);
}
