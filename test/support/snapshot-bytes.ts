// Snapshots of a memory store as bytes in memory, without a file.

import { Buckets } from "../../src/stores/memory/buckets.ts";
import type { MemoryStore } from "../../src/stores/memory/memory-store.ts";
import { entriesOf, piecesOf, type ReadBytes } from "../../src/stores/memory/snapshot/snapshot-entries.ts";
import { type ReadSnapshot, readSnapshot, writeSnapshot } from "../../src/stores/memory/snapshot/snapshot-format.ts";
import { SNAPSHOT_THREAD, StoreMemory } from "../../src/stores/memory/store-memory.ts";
import { SILENT_STORE_OBSERVER, type StoreObserver } from "../../src/stores/store-observer.ts";

type Entry = readonly number[];

/** Collects the entries of a snapshot; `step` makes those of the next lock and says whether there is more to come. */
export class SnapshotInSteps {
  readonly #entries: Entry[] = [];
  readonly #made: Generator<Entry[], void, void>;

  constructor(store: MemoryStore, nowUs: number) {
    this.#made = writeSnapshot(...viewOf(store), nowUs);
  }

  step(): boolean {
    const made = this.#made.next();
    if (made.done === true) return false;
    this.#entries.push(...made.value);
    return true;
  }

  /** The whole, with what was missing of it. */
  bytes(): Buffer {
    while (this.step());
    return sealed(this.#entries);
  }
}

/** Entries as the bytes of a snapshot. */
export function sealed(entries: readonly Entry[]): Buffer {
  return Buffer.concat(Array.from(piecesOf([entries]), (piece) => Buffer.from(piece)));
}

/** The entries of a snapshot. */
export function entriesIn(bytes: Buffer): Entry[] {
  return Array.from(entriesOf(sourceOf(bytes)), (entry) => [...entry]);
}

function sourceOf(bytes: Buffer): ReadBytes {
  return (into, from) => bytes.copy(into, 0, from);
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
  return readSnapshot(entriesOf(sourceOf(bytes)), ...viewOf(store, observer), nowUs);
}
