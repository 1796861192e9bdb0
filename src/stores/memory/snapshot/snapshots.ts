// Snapshots of a memory store over the life of a process: one is read at the start, one is written every so often and one at
// the end. Takes go on whatever becomes of a snapshot: what is wrong is counted, told in the log once, and shown.

import { stat } from "node:fs/promises";
import { dirname } from "node:path";
import type { Clock } from "../../../core/clock.ts";
import { useHashKey } from "../../../core/key-hash.ts";
import { errorMessage } from "../../../core/thrown.ts";
import { MICROS_PER_SECOND } from "../../../core/units.ts";
import { waitAtMost } from "../../../core/wait-at-most.ts";
import type { MemoryStore } from "../memory-store.ts";
import { type ReadSnapshot, readSections } from "./read-sections.ts";
import { NoFileError, SnapshotFile } from "./snapshot-file.ts";
import { LockHeldError, SnapshotLock } from "./snapshot-lock.ts";
import { type SnapshotCounts, sectionsOf } from "./write-sections.ts";

/** How things stand. Times are microseconds since the epoch. */
interface SnapshotStatus {
  readonly file: string;
  /** When the snapshot was begun that stands in the file; undefined if there is none. */
  beganAtUs: number | undefined;
  bytes: number;
  /** What writing it took; 0 if a process before wrote it. */
  seconds: number;
  written: number;
  failed: number;
  /** Files that were there and could not be used. */
  refused: number;
  /** Why none can be written or read, in one sentence. */
  trouble: string | undefined;
}

interface SnapshotLog {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
}

interface SnapshotsOptions {
  readonly store: MemoryStore;
  readonly clock: Clock;
  readonly file: string;
  readonly intervalMs: number;
  readonly log: SnapshotLog;
  /** Learns what is wrong whenever that changes; undefined: nothing is. */
  readonly onTrouble: (trouble: string | undefined) => void;
}

/** The snapshots of a process. */
export class Snapshots {
  readonly #options: SnapshotsOptions;
  readonly #file: SnapshotFile;
  readonly #status: SnapshotStatus;
  #lock: SnapshotLock | undefined;
  #timer: NodeJS.Timeout | undefined;
  #underWay: Promise<void> | undefined;
  /** The snapshot under way is to end unfinished. */
  #isOver = false;

  constructor(options: SnapshotsOptions) {
    this.#options = options;
    this.#file = new SnapshotFile(options.file);
    this.#status = {
      file: options.file,
      beganAtUs: undefined,
      bytes: 0,
      seconds: 0,
      written: 0,
      failed: 0,
      refused: 0,
      trouble: undefined,
    };
  }

  get status(): Readonly<SnapshotStatus> {
    return this.#status;
  }

  /**
   * Fills the store with what the last process left, and begins to write. Must come before anything is hashed that is kept.
   * Throws LockHeldError if another process writes that file.
   */
  async open(): Promise<void> {
    await this.#trying(() => this.#needLock());
    // Also without a lock: in a folder that can't be written to nobody writes.
    await this.#trying(() => this.#read());
    // Where several took away what a dead process left, one may have taken it from another.
    if (this.#lock !== undefined) await this.#trying(() => this.#needLock());
    this.#timer = setInterval(() => this.#writeInTime(), this.#options.intervalMs);
    this.#timer.unref();
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

  /** Writes the last snapshot, for `limitMs` at most: to be called when no take comes any more. */
  async close(limitMs: number): Promise<void> {
    if (await waitAtMost(limitMs, this.#last())) return;
    this.#isOver = true;
    this.#failed(
      new Error(`expected the last snapshot within ${limitMs} ms; what was decided since the one before is lost`),
    );
  }

  /** Ends without a last snapshot. */
  async abandon(): Promise<void> {
    clearInterval(this.#timer);
    this.#isOver = true;
    await this.#underWay;
    await this.#lock?.release();
  }

  async #last(): Promise<void> {
    clearInterval(this.#timer);
    // One that is under way would lack what was decided since.
    this.#isOver = true;
    await this.#underWay;
    this.#isOver = false;
    await this.write();
    await this.#lock?.release();
  }

  async #needLock(): Promise<void> {
    const { file, clock } = this.#options;
    // libuv says EACCES of a socket whose folder does not exist.
    await stat(dirname(file));
    if (this.#lock === undefined || !(await this.#lock.isHeld()))
      this.#lock = await SnapshotLock.take(file, clock.nowUs());
  }

  async #read(): Promise<void> {
    const { store, clock, log, file } = this.#options;
    const startUs = clock.nowUs();
    try {
      const read = await this.#file.read(async (source) => {
        if (source.isOpenToOthers)
          log.warn(
            { file },
            "expected a snapshot that others can't read: who reads it can make keys that share a bucket",
          );
        const buckets = store.emptyBuckets();
        const found = await readSections(source, buckets, startUs);
        useHashKey(found.hashKey);
        store.useBuckets(buckets);
        return found;
      });
      if (read !== undefined) this.#tellRead(read, startUs);
    } catch (error) {
      if (error instanceof NoFileError) throw error;
      await this.#setAside(reasonOf(error));
    }
  }

  async #setAside(reason: string): Promise<void> {
    const { log, file } = this.#options;
    this.#status.refused++;
    const message = "the snapshot can't be used, all buckets start anew";
    try {
      const keptAs = await this.#file.setAside();
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
    Object.assign(this.#status, { beganAtUs, bytes });
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
    const { store, clock, log, file } = this.#options;
    const startUs = clock.nowUs();
    const counts: SnapshotCounts = { buckets: 0, logs: 0 };
    try {
      await this.#needLock();
      const bytes = await this.#file.write(this.#until(sectionsOf(store.buckets, () => clock.nowUs(), counts)));
      const seconds = (clock.nowUs() - startUs) / MICROS_PER_SECOND;
      Object.assign(this.#status, { beganAtUs: startUs, bytes, seconds });
      this.#status.written++;
      if (this.#status.trouble !== undefined) log.info({ file, ...counts }, "snapshots are written again");
      this.#show(undefined);
    } catch (error) {
      if (!(error instanceof GivenUp)) this.#failed(error);
    }
  }

  *#until(pieces: Iterable<Uint8Array>): Generator<Uint8Array, void, void> {
    for (const piece of pieces) {
      if (this.#isOver) throw new GivenUp();
      yield piece;
    }
  }

  #failed(error: unknown): void {
    const { log, file } = this.#options;
    const reason = reasonOf(error);
    this.#status.failed++;
    if (reason !== this.#status.trouble)
      log.warn({ file, reason }, "no snapshot could be kept; calls are decided all the same");
    this.#show(reason);
  }

  #show(trouble: string | undefined): void {
    this.#status.trouble = trouble;
    this.#options.onTrouble(trouble);
  }
}

/** A snapshot was given up because the process ends. */
class GivenUp extends Error {
  override readonly name = "GivenUp";
}

function reasonOf(error: unknown): string {
  if (error instanceof LockHeldError) return `expected a file of this process alone, it is in use by ${error.message}`;
  if (error instanceof NoFileError) return error.message;
  return errorMessage(error);
}
