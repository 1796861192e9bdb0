// Snapshots of a memory store as bytes in memory, without a file.

import type { MemoryStore } from "../../src/stores/memory/memory-store.ts";
import { type ReadSnapshot, readSections } from "../../src/stores/memory/snapshot/read-sections.ts";
import { sectionsOf } from "../../src/stores/memory/snapshot/write-sections.ts";

/** Collects the pieces of a snapshot; `step` makes the next one and says whether there is more to come. */
export class SnapshotInSteps {
  readonly #pieces: Buffer[] = [];
  readonly #sections: Generator<Uint8Array, void, void>;
  readonly counts = { buckets: 0, logs: 0 };

  /** With one byte as `sectionBytes` each page of buckets is a step. */
  constructor(store: MemoryStore, nowUs: () => number, sectionBytes?: number) {
    this.#sections = sectionsOf(store.buckets, nowUs, this.counts, sectionBytes);
  }

  step(): boolean {
    const piece = this.#sections.next();
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

/** The snapshot of a store that stands still. */
export function snapshotOf(store: MemoryStore, nowUs: number): Buffer {
  return new SnapshotInSteps(store, () => nowUs).bytes();
}

/** Has the store go on with what the snapshot holds and still means something at `nowUs`. */
export async function restore(store: MemoryStore, bytes: Buffer, nowUs: number): Promise<ReadSnapshot> {
  const buckets = store.emptyBuckets();
  const read = await readSections(sourceOf(bytes), buckets, nowUs);
  store.useBuckets(buckets);
  return read;
}

/** The bytes as a file has them. */
export function sourceOf(bytes: Buffer) {
  return {
    read: (into: Buffer, offset: number, length: number, position: number) =>
      Promise.resolve({ bytesRead: bytes.subarray(position, position + length).copy(into, offset) }),
  };
}
