// Memory for tables whose most rows are known: reserved for all of them, so that it never has to be copied to grow. The
// system gives memory as it is written to.

/**
 * glibc gives out smaller blocks of memory that was used before, and clears it first, so all of a block takes memory at
 * once.
 */
const RESERVED_MIN = 34_603_008;
/** Arrays begin at multiples of a cache line. */
const ALIGNMENT = 64;

/**
 * A buffer of at least so many bytes, all 0. V8 would count all bytes of an ArrayBuffer as used, and collect garbage
 * because of them; it counts none of this kind. Throws RangeError if the system does not give so many addresses.
 */
export function reserve(bytes: number): SharedArrayBuffer {
  return new SharedArrayBuffer(Math.max(bytes, RESERVED_MIN));
}

/** Makes arrays, all 0, several small ones in one reservation. */
export class Reserved {
  #buffer: SharedArrayBuffer | undefined;
  #end = 0;
  /** Bytes of all arrays, written to or not. */
  total = 0;

  numbers(length: number): Float64Array {
    return new Float64Array(...this.#take(length, Float64Array.BYTES_PER_ELEMENT));
  }

  words(length: number): Int32Array {
    return new Int32Array(...this.#take(length, Int32Array.BYTES_PER_ELEMENT));
  }

  bytes(length: number): Uint8Array {
    return new Uint8Array(...this.#take(length, Uint8Array.BYTES_PER_ELEMENT));
  }

  #take(length: number, elementBytes: number): [buffer: SharedArrayBuffer, at: number, length: number] {
    const bytes = Math.ceil((length * elementBytes) / ALIGNMENT) * ALIGNMENT;
    if (this.#buffer === undefined || this.#end + bytes > this.#buffer.byteLength) {
      this.#buffer = reserve(bytes);
      this.#end = 0;
    }
    const at = this.#end;
    this.#end += bytes;
    this.total += bytes;
    return [this.#buffer, at, length];
  }
}
