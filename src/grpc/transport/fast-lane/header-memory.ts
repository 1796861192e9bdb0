// Remembers decoded header blocks by their bytes: most clients send the same block with every call. A block qualifies if decoding it
// leaves the header table unchanged, and is valid as long as the table stays unchanged.

import type { RequestHead } from "./request-head.ts";

/** Blocks remembered per connection; a power of two. */
const REMEMBERED_BLOCKS_MAX = 64;
/** Longer blocks are always decoded. */
export const REMEMBERED_BLOCK_BYTES_MAX = 512;

interface Slot {
  readonly bytes: Buffer;
  readonly generation: number;
  readonly head: RequestHead;
}

/** The memory of one connection. A block's hash gives its slot; a new block replaces the old one there. */
export class HeaderMemory {
  readonly #slots: (Slot | undefined)[] = new Array(REMEMBERED_BLOCKS_MAX);
  // By slot, the hash that was looked up last: a block is worth keeping when it comes a second time.
  readonly #lastAsked = new Int32Array(REMEMBERED_BLOCKS_MAX);
  // The slot of the block that was not found.
  #at = 0;
  #isAgain = false;

  /** The decoded head of the block, as of the header table at `generation`; undefined if it is not remembered. */
  find(block: Buffer, start: number, end: number, generation: number): RequestHead | undefined {
    const length = end - start;
    if (length > REMEMBERED_BLOCK_BYTES_MAX) {
      this.#isAgain = false;
      return undefined;
    }
    let hash = length;
    for (let i = start; i < end; i++) hash = (Math.imul(hash, 31) + (block[i] as number)) | 0;
    const at = (hash ^ (hash >>> 11)) & (REMEMBERED_BLOCKS_MAX - 1);
    const slot = this.#slots[at];
    if (slot !== undefined && slot.generation === generation && isSame(slot.bytes, block, start, length)) {
      return slot.head;
    }
    this.#at = at;
    this.#isAgain = this.#lastAsked[at] === hash;
    this.#lastAsked[at] = hash;
    return undefined;
  }

  /** Remembers the head of the block that `find` has just not found, if the block came before. True if the head is kept and must not change. */
  remember(block: Buffer, start: number, end: number, generation: number, head: RequestHead): boolean {
    if (this.#isAgain) this.#slots[this.#at] = { bytes: Buffer.from(block.subarray(start, end)), generation, head };
    return this.#isAgain;
  }
}

function isSame(bytes: Buffer, block: Buffer, start: number, length: number): boolean {
  if (bytes.length !== length) return false;
  for (let i = 0; i < length; i++) if (bytes[i] !== block[start + i]) return false;
  return true;
}
