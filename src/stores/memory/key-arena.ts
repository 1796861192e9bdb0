// Bytes of bucket keys, one after another in one buffer. Kept outside the garbage collector's heap: millions of live
// key strings would cost 16 bytes more each and stop the process whenever they are moved.

const CAPACITY_MIN = 512;

/** Append-only bytes; what is dropped is reclaimed when the owner copies the living into a new arena. */
export class KeyArena {
  #bytes: Uint8Array;
  #used = 0;

  /** Has room for `bytes`, and a quarter more. */
  constructor(bytes: number) {
    this.#bytes = new Uint8Array(Math.max(CAPACITY_MIN, Math.ceil(bytes * 1.25)));
  }

  hasRoomFor(length: number): boolean {
    return this.#used + length <= this.#bytes.length;
  }

  /** Appends the one-byte text and returns where it begins. There must be room. */
  append(key: string): number {
    const offset = this.#used;
    for (let i = 0; i < key.length; i++) this.#bytes[offset + i] = key.charCodeAt(i);
    this.#used = offset + key.length;
    return offset;
  }

  /** Appends bytes of another arena and returns where they begin. There must be room. */
  appendFrom(other: KeyArena, offset: number, length: number): number {
    const bytes = this.#bytes;
    const source = other.#bytes;
    const start = this.#used;
    for (let i = 0; i < length; i++) bytes[start + i] = source[offset + i] ?? 0;
    this.#used = start + length;
    return start;
  }

  /** True if the bytes from `offset` on are `key`. Faster than a string compare would be with the key to build first. */
  equals(offset: number, key: string): boolean {
    const bytes = this.#bytes;
    // From the end, because keys of one rule begin alike.
    for (let i = key.length - 1; i >= 0; i--) if (bytes[offset + i] !== key.charCodeAt(i)) return false;
    return true;
  }
}
