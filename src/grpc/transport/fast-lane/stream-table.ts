// The open streams of a connection. A unary call mostly opens and ends within one read, with no other stream's frames between: the newest
// stream is kept apart, so that such calls never enter the map.

import type { Stream } from "./stream.ts";

/** Streams reset by us that are remembered, because frames for them may still be under way. A power of two. */
const RECENT_RESETS = 64;

export class StreamTable {
  readonly #older = new Map<number, Stream>();
  #newest: Stream | undefined;
  readonly #recentResets = new Int32Array(RECENT_RESETS);
  #resets = 0;
  /** The highest stream number that the peer has used. */
  lastId = 0;

  get size(): number {
    return this.#older.size + (this.#newest === undefined ? 0 : 1);
  }

  get(id: number): Stream | undefined {
    const newest = this.#newest;
    return newest !== undefined && newest.id === id ? newest : this.#older.get(id);
  }

  add(stream: Stream): void {
    const newest = this.#newest;
    if (newest !== undefined) this.#older.set(newest.id, newest);
    this.#newest = stream;
  }

  remove(stream: Stream): void {
    if (this.#newest === stream) this.#newest = undefined;
    else this.#older.delete(stream.id);
  }

  /** All streams at the moment of the call. */
  all(): Stream[] {
    const all = [...this.#older.values()];
    if (this.#newest !== undefined) all.push(this.#newest);
    return all;
  }

  /** Notes that we have reset a stream, or never accepted it. */
  noteReset(id: number): void {
    this.#recentResets[this.#resets++ & (RECENT_RESETS - 1)] = id;
  }

  wasReset(id: number): boolean {
    return this.#recentResets.includes(id);
  }
}
