// Snapshots of a memory store as bytes in memory, without a file.

import { Buckets } from "../../src/stores/memory/buckets.ts";
import type { MemoryStore } from "../../src/stores/memory/memory-store.ts";
import { piecesOf, type ReadSnapshot, readSnapshot } from "../../src/stores/memory/snapshot/snapshot-format.ts";
import { SNAPSHOT_THREAD, StoreMemory } from "../../src/stores/memory/store-memory.ts";
import { SILENT_STORE_OBSERVER, type StoreObserver } from "../../src/stores/store-observer.ts";

/** Collects the pieces of a snapshot; `step` makes the next one and says whether there is more to come. */
export class SnapshotInSteps {
  readonly #pieces: Buffer[] = [];
  readonly #made: Generator<Uint8Array, void, void>;

  /** With one number as `chunkNumbers` there is a piece for each lock that is taken. */
  constructor(store: MemoryStore, nowUs: number, chunkNumbers?: number) {
    const [memory, buckets] = viewOf(store);
    this.#made = piecesOf(memory, buckets, nowUs, { buckets: 0, logs: 0 }, chunkNumbers);
  }

  step(): boolean {
    const piece = this.#made.next();
    if (piece.done === true) return false;
    this.#pieces.push(Buffer.from(piece.value));
    return true;
  }

  /** The whole, with what was missing of it. */
  bytes(): Buffer {
    while (this.step());
    return Buffer.concat(this.#pieces);
  }
}

/** The store's buckets as the thread of a snapshot has them. */
function viewOf(store: MemoryStore, observer: StoreObserver = SILENT_STORE_OBSERVER): [StoreMemory, Buckets] {
  const memory = new StoreMemory(store.shared, SNAPSHOT_THREAD);
  return [memory, new Buckets(memory, { onEvicted: (buckets) => observer.evicted(buckets) })];
}

/** The snapshot of a store that stands still. */
export function snapshotOf(store: MemoryStore, nowUs: number): Buffer {
  return new SnapshotInSteps(store, nowUs).bytes();
}

/** Fills an empty store with what the snapshot holds and still means something at `nowUs`. */
export function restore(store: MemoryStore, bytes: Buffer, nowUs: number, observer?: StoreObserver): ReadSnapshot {
  let at = 0;
  const read = (into: Uint8Array) => {
    const got = bytes.subarray(at, at + into.length).copy(into);
    at += got;
    return got;
  };
  return readSnapshot(read, ...viewOf(store, observer), nowUs);
}
