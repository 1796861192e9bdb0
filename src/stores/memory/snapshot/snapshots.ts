// The snapshots of a memory store during a process: one is read at the start, and others are written at intervals and
// at the end. No trouble with a snapshot stops takes: it is counted, logged once, and shown.

import { stat } from "node:fs/promises";
import { dirname } from "node:path";
import type { Clock } from "../../../base/clock.ts";
import type { Log } from "../../../base/log.ts";
import { inTurns } from "../../../base/long-work.ts";
import { errorMessage } from "../../../base/thrown.ts";
import { MICROS_PER_SECOND } from "../../../base/units.ts";
import { waitAtMost } from "../../../base/wait-at-most.ts";
import type { MemoryStore } from "../memory-store.ts";
import { blocksOf, piecesOf } from "./snapshot-entries.ts";
import { hasFile, readSnapshotFile, replaceSnapshotFile, setSnapshotAside } from "./snapshot-file.ts";
import { readSnapshot, writeSnapshot } from "./snapshot-format.ts";
import { LockHeldError, SnapshotLock } from "./snapshot-lock.ts";

/**
 * Longest wait, at the end of a process, for a snapshot that was given up. A disk that hangs would keep the process.
 */
const GIVEN_UP_MS_MAX = 1_000;

interface SnapshotsOptions {
  readonly store: MemoryStore;
  readonly clock: Clock;
  readonly file: string;
  readonly intervalMs: number;
  readonly log: Pick<Log, "info" | "warn">;
}

/** What is shown of snapshots. */
interface SnapshotState {
  /** When the snapshot in the file was begun, in microseconds since the epoch; undefined if there isn't one. */
  readonly beganAtUs?: number;
  readonly bytes: number;
  /** Seconds that writing it took; 0 if an earlier process wrote it. */
  readonly seconds: number;
  readonly written: number;
  readonly failed: number;
  /** Number of files that were found and could not be used. */
  readonly refused: number;
  /** Why no snapshot can be written or read, in one sentence. */
  readonly trouble?: string | undefined;
}

/** Reads and writes the snapshots of one process, in turns between its calls. */
export class Snapshots {
  readonly #options: SnapshotsOptions;
  /** Mark of the file that this process read or wrote last (snapshot-file.ts); undefined if it did neither. */
  #mark: string | undefined;
  #state: SnapshotState = { bytes: 0, seconds: 0, written: 0, failed: 0, refused: 0 };
  #lock: SnapshotLock | undefined;
  #timer: NodeJS.Timeout | undefined;
  #underWay: Promise<void> | undefined;
  /** Gives up the snapshot under way. */
  #givingUp = new AbortController();
  /** True once no more are to be begun. */
  #isOver = false;

  constructor(options: SnapshotsOptions) {
    this.#options = options;
  }

  get state(): SnapshotState {
    return this.#state;
  }

  /**
   * Fills the store from the file and begins to write at intervals. To be called before any bucket key is hashed.
   * Rejects with LockHeldError if another process has the file.
   */
  async open(): Promise<void> {
    await this.#trying(() => this.#needLock());
    // Read even without the lock: in a folder where no lock can be made nobody can write.
    await this.#trying(() => this.#read());
    // Checked again, because several processes may have removed a dead process's lock at once, and one of them
    // another's new lock.
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

  /**
   * Writes the last snapshot and releases the lock, within `limitMs` milliseconds; to be called when no more takes
   * come.
   */
  async close(limitMs: number): Promise<void> {
    const last = this.#last();
    if (await waitAtMost(limitMs, last)) return;
    this.#isOver = true;
    await waitAtMost(GIVEN_UP_MS_MAX, this.#stop());
    this.#failed(
      new Error(`expected the last snapshot within ${limitMs} ms; what was decided since the one before is lost`),
    );
  }

  async #last(): Promise<void> {
    // A snapshot under way would lack the latest takes.
    await this.#stop();
    if (!this.#isOver) await this.write();
    await this.#lock?.release();
  }

  /** Ends without a last snapshot; releases the lock. */
  async abandon(): Promise<void> {
    await this.#stop();
    await this.#lock?.release();
  }

  /** Gives up the snapshot under way, and begins no more by itself. */
  async #stop(): Promise<void> {
    clearInterval(this.#timer);
    this.#givingUp.abort();
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
    const { clock, file, store } = this.#options;
    if (!(await hasFile(file))) return;
    const startUs = clock.nowUs();
    try {
      await readSnapshotFile(file, async (read, { bytes, mark }) => {
        const done = await readSnapshot(blocksOf(read), store, startUs);
        this.#mark = mark;
        this.#tellRead(bytes, done, startUs);
      });
    } catch (error) {
      // Half of it may be there.
      store.clear();
      await this.#setAside(errorMessage(error));
    }
  }

  async #setAside(reason: string): Promise<void> {
    const { log, file } = this.#options;
    this.#note({ refused: this.#state.refused + 1 });
    const message = "can't use the snapshot; all buckets start full";
    try {
      log.warn({ file, reason, kept_as: await setSnapshotAside(file) }, message);
    } catch (error) {
      log.warn({ file, reason, kept_as: file }, message);
      throw error;
    }
  }

  #tellRead(bytes: number, read: Awaited<ReturnType<typeof readSnapshot>>, startUs: number): void {
    const { clock, log, file } = this.#options;
    const { kept: buckets, ended, withoutRoom, beganAtUs } = read;
    const ageSeconds = (startUs - beganAtUs) / MICROS_PER_SECOND;
    const seconds = (clock.nowUs() - startUs) / MICROS_PER_SECOND;
    this.#note({ beganAtUs, bytes, seconds: 0 });
    const fields = { file, buckets, ended, age_seconds: ageSeconds, seconds };
    if (withoutRoom > 0)
      log.warn(
        { ...fields, without_room: withoutRoom },
        "BUCKETS_MAX leaves no room for some sliding logs of the snapshot; they start full",
      );
    else if (ageSeconds < 0)
      log.warn(fields, "the snapshot is newer than the clock, which has stepped back; nothing is granted for that");
    else log.info(fields, "buckets continue from the snapshot");
  }

  async #write(): Promise<void> {
    const { clock, log, file, store } = this.#options;
    this.#givingUp = new AbortController();
    const { signal } = this.#givingUp;
    const startUs = clock.nowUs();
    try {
      await this.#needLock();
      const entries = until(signal, inTurns(writeSnapshot(store, startUs)));
      const { bytes, mark } = await replaceSnapshotFile(file, this.#mark, piecesOf(entries));
      const seconds = (clock.nowUs() - startUs) / MICROS_PER_SECOND;
      this.#mark = mark;
      const { trouble, written } = this.#state;
      if (trouble !== undefined) log.info({ file }, "writing snapshots again");
      this.#note({ beganAtUs: startUs, bytes, seconds, written: written + 1, trouble: undefined });
    } catch (error) {
      if (!signal.aborted) this.#failed(error);
    }
  }

  #failed(error: unknown): void {
    const { log, file } = this.#options;
    const reason =
      error instanceof LockHeldError
        ? `expected a file of this process alone, it is in use by ${error.message}`
        : errorMessage(error);
    this.#note({ failed: this.#state.failed + 1 });
    if (reason !== this.#state.trouble) log.warn({ file, reason }, "can't keep a snapshot; calls are still decided");
    this.#note({ trouble: reason });
  }

  #note(changes: Partial<SnapshotState>): void {
    this.#state = { ...this.#state, ...changes };
  }
}

/** Passes the items on, and throws once the signal says so. */
async function* until<T>(signal: AbortSignal, items: AsyncIterable<T>): AsyncGenerator<T, void, void> {
  for await (const item of items) {
    signal.throwIfAborted();
    yield item;
  }
}
