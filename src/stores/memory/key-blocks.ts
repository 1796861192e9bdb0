// Bytes of bucket keys in blocks of typed arrays, outside the garbage collector's heap: millions of live key strings
// would cost 24 bytes more each, and would stop the process whenever they are moved. Bytes never move here.

import { invariant } from "../../core/invariant.ts";

const GRANULE = 4;
const BLOCK_BYTES = 65_536;
const GRANULE_BITS = 14;
const GRANULES_PER_BLOCK = BLOCK_BYTES / GRANULE;
/** Longer keys get a block of their own. */
const SHARED_BYTES_MAX = 2_048;

/** Keys by address. An address is a whole number below 2^32 and holds until the key is freed. */
export class KeyBlocks {
  readonly #bytes: Uint8Array[] = [];
  /** The same blocks in 32-bit words: a freed place holds the address of the next free one of its size, plus 1. */
  readonly #words: Uint32Array[] = [];
  /** By size in granules: the address of a free place, plus 1; 0 if there is none. */
  readonly #freeOfSize: number[] = new Array<number>(SHARED_BYTES_MAX / GRANULE + 1).fill(0);
  readonly #freeBlocks: number[] = [];
  #nextGranule = GRANULES_PER_BLOCK;
  #openBlock = -1;

  /** Keeps the bytes of one-byte text. */
  put(key: string): number {
    const address = this.#placeFor(key.length);
    const bytes = this.#bytes[address >>> GRANULE_BITS];
    invariant(bytes !== undefined, `a key has a block, also the one at ${address}`);
    const offset = offsetOf(address);
    for (let i = 0; i < key.length; i++) bytes[offset + i] = key.charCodeAt(i);
    return address;
  }

  /** True if the bytes at `address` are `key`; the lengths are equal. */
  equals(address: number, key: string): boolean {
    const bytes = this.#bytes[address >>> GRANULE_BITS];
    if (bytes === undefined) return false;
    const offset = offsetOf(address);
    // From the end, because keys of one rule begin alike.
    for (let i = key.length - 1; i >= 0; i--) if (bytes[offset + i] !== key.charCodeAt(i)) return false;
    return true;
  }

  /** Lets go of a key of that length. */
  free(address: number, length: number): void {
    const block = address >>> GRANULE_BITS;
    if (length > SHARED_BYTES_MAX) {
      this.#bytes[block] = new Uint8Array(0);
      this.#words[block] = new Uint32Array(0);
      this.#freeBlocks.push(block);
      return;
    }
    const words = this.#words[block];
    if (words === undefined) return;
    const granules = granulesOf(length);
    words[offsetOf(address) >>> 2] = this.#freeOfSize[granules] ?? 0;
    this.#freeOfSize[granules] = address + 1;
  }

  #placeFor(length: number): number {
    if (length > SHARED_BYTES_MAX) return this.#addBlock(length) * GRANULES_PER_BLOCK;
    const granules = granulesOf(length);
    const free = this.#freeOfSize[granules] ?? 0;
    if (free > 0) {
      const address = free - 1;
      this.#freeOfSize[granules] = this.#words[address >>> GRANULE_BITS]?.[offsetOf(address) >>> 2] ?? 0;
      return address;
    }
    if (this.#nextGranule + granules > GRANULES_PER_BLOCK) {
      this.#openBlock = this.#addBlock(BLOCK_BYTES);
      this.#nextGranule = 0;
    }
    const address = this.#openBlock * GRANULES_PER_BLOCK + this.#nextGranule;
    this.#nextGranule += granules;
    return address;
  }

  #addBlock(bytes: number): number {
    const block = this.#freeBlocks.pop() ?? this.#bytes.length;
    const buffer = new ArrayBuffer(granulesOf(bytes) * GRANULE);
    this.#bytes[block] = new Uint8Array(buffer);
    this.#words[block] = new Uint32Array(buffer);
    return block;
  }
}

/** At least one, so that a free place can hold an address. */
function granulesOf(length: number): number {
  return Math.max(1, Math.ceil(length / GRANULE));
}

function offsetOf(address: number): number {
  return (address & (GRANULES_PER_BLOCK - 1)) * GRANULE;
}
