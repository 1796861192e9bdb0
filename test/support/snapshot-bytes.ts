// Snapshots of a memory store as bytes in memory, without a file.

import type { MemoryStore } from "../../src/stores/memory/memory-store.ts";
import {
  blocksOf,
  entriesToKeep,
  piecesOf,
  type ReadBytes,
} from "../../src/stores/memory/snapshot/snapshot-entries.ts";
import { type ReadSnapshot, readSnapshot, writeSnapshot } from "../../src/stores/memory/snapshot/snapshot-format.ts";

type Entry = readonly number[];

/** Collects the entries of a snapshot; `step` makes those of the next step and says whether there is more to come. */
export class SnapshotInSteps {
  readonly #entries: Entry[] = [];
  readonly #made: ReturnType<typeof writeSnapshot>;

  constructor(store: MemoryStore, nowUs: number) {
    this.#made = writeSnapshot(store, nowUs);
  }

  step(): boolean {
    const made = this.#made.next();
    if (made.done === true) return false;
    this.#entries.push(...made.value.map((entry) => Array.from(entry)));
    return true;
  }

  /** The whole, with what was missing of it. */
  entries(): readonly Entry[] {
    while (this.step());
    return this.#entries;
  }
}

/** Entries as the pieces of a snapshot's file. */
export async function piecesIn(entries: readonly Entry[]): Promise<Buffer[]> {
  const all = async function* () {
    yield entries;
  };
  const pieces: Buffer[] = [];
  for await (const piece of piecesOf(all())) pieces.push(Buffer.from(piece));
  return pieces;
}

/** Entries as the bytes of a snapshot. */
export async function sealed(entries: readonly Entry[]): Promise<Buffer> {
  return Buffer.concat(await piecesIn(entries));
}

/** The entries of a snapshot. */
export async function entriesIn(bytes: Buffer): Promise<Entry[]> {
  const all: Entry[] = [];
  for await (const block of blocksOf(sourceOf(bytes))) for (const entry of entriesToKeep(block)) all.push([...entry]);
  return all;
}

function sourceOf(bytes: Buffer): ReadBytes {
  return (into, from) => Promise.resolve(bytes.copy(into, 0, from));
}

/** The snapshot of a store that stands still, by its entries. */
export function snapshotOf(store: MemoryStore, nowUs: number): readonly Entry[] {
  return new SnapshotInSteps(store, nowUs).entries();
}

/** Fills an empty store with what the snapshot holds and still means something at `nowUs`. */
export function restore(store: MemoryStore, bytes: Buffer, nowUs: number): Promise<ReadSnapshot> {
  return readSnapshot(blocksOf(sourceOf(bytes)), store, nowUs);
}
