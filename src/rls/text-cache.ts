// Remembers short texts by their bytes, so that keys, domains and busy values are not cut from the buffer on every call:
// comparing a dozen bytes costs less than making a string (bench/micro/codec.mjs), and leaves no garbage.

/** Longer text is quicker cut than compared. */
export const SHORT_TEXT_BYTES_MAX = 32;
/** A power of two. */
const SLOTS = 2_048;

/** A table with one text per slot: a newcomer takes the place of whoever had it, so no sender can make it slow or large. */
export class TextCache {
  readonly #texts: string[] = new Array<string>(SLOTS).fill("");
  // The bytes of each text again: reading them here is quicker than reading the chars of the string.
  readonly #bytes = new Uint8Array(SLOTS * SHORT_TEXT_BYTES_MAX);

  /** The bytes from `start` up to `end`, 1 to SHORT_TEXT_BYTES_MAX of them, as one-byte text. */
  read(bytes: Buffer, start: number, end: number): string {
    const length = end - start;
    let hash = length;
    for (let i = start; i < end; i++) hash = Math.imul(hash, 31) + (bytes[i] as number);
    const slot = (hash ^ (hash >>> 11)) & (SLOTS - 1);
    const known = this.#texts[slot] as string;
    return known.length === length && this.#holds(slot, bytes, start, length)
      ? known
      : this.#learn(slot, bytes, start, end);
  }

  #holds(slot: number, bytes: Buffer, start: number, length: number): boolean {
    const own = this.#bytes;
    const at = slot * SHORT_TEXT_BYTES_MAX;
    for (let i = 0; i < length; i++) if (own[at + i] !== bytes[start + i]) return false;
    return true;
  }

  #learn(slot: number, bytes: Buffer, start: number, end: number): string {
    const own = this.#bytes;
    const at = slot * SHORT_TEXT_BYTES_MAX;
    for (let i = start; i < end; i++) own[at + i - start] = bytes[i] as number;
    const text = bytes.latin1Slice(start, end);
    this.#texts[slot] = text;
    return text;
  }
}
