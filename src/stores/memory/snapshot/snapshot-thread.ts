// Reads or writes a snapshot in a thread of its own: it may take seconds, and calls must not wait for it.

import { parentPort, workerData } from "node:worker_threads";
import { useHashKey } from "../../../engine/domain/key-bytes.ts";
import { Buckets } from "../buckets.ts";
import { type SharedStore, SNAPSHOT_THREAD, StoreMemory } from "../store-memory.ts";
import { entriesOf, piecesOf } from "./snapshot-entries.ts";
import { type FileFacts, readSnapshotFile, replaceSnapshotFile } from "./snapshot-file.ts";
import { type ReadSnapshot, readSnapshot, writeSnapshot } from "./snapshot-format.ts";

/** What the thread is to do. Time is the caller's, in microseconds. */
export interface SnapshotJob {
  readonly kind: "read" | "write";
  readonly path: string;
  readonly store: SharedStore;
  readonly nowUs: number;
  readonly hashKey: Uint8Array;
  /** To write: the mark of the file that may be replaced. */
  readonly mark: string | undefined;
}

/** What has been read or written. */
export interface SnapshotDone extends FileFacts {
  readonly read?: ReadSnapshot;
}

function doJob({ kind, path, store, nowUs, hashKey, mark }: SnapshotJob): SnapshotDone {
  useHashKey(Buffer.from(hashKey));
  const memory = new StoreMemory(store, SNAPSHOT_THREAD);
  const buckets = new Buckets(memory, { onEvicted: () => undefined });
  if (kind === "write") return replaceSnapshotFile(path, mark, piecesOf(writeSnapshot(memory, buckets, nowUs)));
  return readSnapshotFile(path, (read, facts) => ({
    ...facts,
    read: readSnapshot(entriesOf(read), memory, buckets, nowUs),
  }));
}

parentPort?.postMessage(doJob(workerData as SnapshotJob));
