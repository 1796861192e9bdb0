// Caches short texts by their bytes, so that frequent keys, domains and values need no new string on every call: comparing a dozen
// bytes costs less than making a string (bench/micro/codec.mjs), and leaves no garbage.

/** Text up to this length is cached; making a string of longer text is quicker than comparing it. */
export const SHORT_TEXT_BYTES_MAX = 32;
/** A power of two. */
const SLOTS = 2_048;

/** A direct-mapped cache: a new text replaces the one in its slot, so no sender can make the cache slow or large. */
export class TextCache {
  readonly #texts: string[] = new Array<string>(SLOTS).fill("");
  // A copy of each text's bytes, because reading these is quicker than reading the chars of the string.
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
