// Reading and writing a snapshot, each a job for a thread of its own: it may take a second, and calls must not wait for it.

import { existsSync, rmSync } from "node:fs";
import { Worker } from "node:worker_threads";
import { useHashKey } from "../../../engine/domain/key-bytes.ts";
import { Buckets } from "../buckets.ts";
import { type SharedStore, SNAPSHOT_THREAD, StoreMemory } from "../store-memory.ts";
import { SnapshotRefused } from "./chunks.ts";
import { draftOf, NoFileError, readSnapshotFile, replaceSnapshotFile } from "./snapshot-file.ts";
import { piecesOf, type ReadSnapshot, readSnapshot, type SnapshotCounts } from "./snapshot-format.ts";

/** What a thread is to do. Time is the caller's, in microseconds. */
export interface SnapshotJob {
  readonly kind: "read" | "write";
  readonly path: string;
  readonly store: SharedStore;
  readonly nowUs: number;
  readonly hashKey: Uint8Array;
  /** To write: the mark of the file that may be replaced. */
  readonly mark: string | undefined;
}

/** What has been read or written. `mark` is that of the file. */
interface SnapshotDone {
  readonly mark: string;
  readonly bytes: number;
  readonly read: ReadSnapshot | undefined;
  readonly isOpenToOthers: boolean;
  readonly counts: SnapshotCounts;
}

/** As it comes from the thread. Undefined: there is no file to read. */
interface SnapshotAnswer {
  readonly done?: SnapshotDone | undefined;
  readonly error?: { readonly name: string; readonly message: string };
}

/** Does the job in this thread. Never throws. */
export function doSnapshotJob(job: SnapshotJob): SnapshotAnswer {
  useHashKey(Buffer.from(job.hashKey));
  const memory = new StoreMemory(job.store, SNAPSHOT_THREAD);
  const buckets = new Buckets(memory, { onEvicted: () => undefined });
  try {
    return { done: job.kind === "read" ? read(job, memory, buckets) : write(job, memory, buckets) };
  } catch (error) {
    memory.rollBack();
    if (job.kind === "read") buckets.clear();
    useHashKey(Buffer.from(job.hashKey));
    const { name, message } = error instanceof Error ? error : new Error(String(error));
    return { error: { name, message } };
  }
}

function read({ path, nowUs }: SnapshotJob, memory: StoreMemory, buckets: Buckets): SnapshotDone | undefined {
  return readSnapshotFile(path, (file) => {
    const found = readSnapshot(file.read, memory, buckets, nowUs);
    const { mark, isOpenToOthers } = file;
    return { mark, isOpenToOthers, bytes: found.bytes, read: found, counts: { buckets: 0, logs: 0 } };
  });
}

function write({ path, mark, nowUs }: SnapshotJob, memory: StoreMemory, buckets: Buckets): SnapshotDone {
  const counts = { buckets: 0, logs: 0 };
  const written = replaceSnapshotFile(path, mark, piecesOf(memory, buckets, nowUs, counts));
  return { ...written, counts, read: undefined, isOpenToOthers: false };
}

// If the TypeScript sources run without a build, this file does not exist, and the job is done in the caller's thread.
const WORKER = new URL("./snapshot-thread.js", import.meta.url);

/** Runs one job. Rejects with SnapshotRefused, NoFileError or the system's error. `end` gives the job up. */
export class RunningJob {
  readonly done: Promise<SnapshotDone | undefined>;
  readonly #job: SnapshotJob;
  #thread: Worker | undefined;

  constructor(job: SnapshotJob) {
    this.#job = job;
    this.done = existsSync(WORKER) ? this.#inThread() : Promise.resolve().then(() => resultOf(doSnapshotJob(job)));
  }

  /** Ends the thread, wherever it is, and removes what it has written. `done` then rejects. */
  async end(): Promise<void> {
    await this.#thread?.terminate();
    if (this.#job.kind === "write") rmSync(draftOf(this.#job.path), { force: true });
  }

  async #inThread(): Promise<SnapshotDone | undefined> {
    const thread = new Worker(WORKER, { workerData: this.#job });
    this.#thread = thread;
    try {
      const answer = await new Promise<SnapshotAnswer>((resolve, reject) => {
        thread.once("message", resolve);
        thread.once("error", reject);
        thread.once("exit", (code) => reject(new Error(`the thread of the snapshot ended with ${code}`)));
      });
      return resultOf(answer);
    } catch (error) {
      await thread.terminate();
      const memory = new StoreMemory(this.#job.store, SNAPSHOT_THREAD);
      memory.endThread();
      // What a thread has read that ended in the middle is half a snapshot.
      if (this.#job.kind === "read") new Buckets(memory, { onEvicted: () => undefined }).clear();
      throw error;
    } finally {
      await thread.terminate();
    }
  }
}

function resultOf({ done, error }: SnapshotAnswer): SnapshotDone | undefined {
  if (error === undefined) return done;
  if (error.name === "SnapshotRefused") throw new SnapshotRefused(error.message);
  if (error.name === "NoFileError") throw new NoFileError(error.message);
  throw new Error(error.message);
}
