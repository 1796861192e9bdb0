// The bytes of a snapshot: a first line that names format and version, then sections, each of one type. A section ends the
// checksum of everything up to and with it, so that none can be lost, changed or come from another file. Numbers lie as
// they do in this machine's memory, which the first line names too.
//
//   24 bytes  "headgate snapshot 01 le\n"
//   section   4 bytes type, 4 bytes length of what it holds, 4 bytes checksum (CRC-32), 4 bytes of zeros, what it holds

import { endianness } from "node:os";
import { crc32 } from "node:zlib";

const VERSION = 1;
const ORDER = endianness().toLowerCase();
const FORMAT = "headgate snapshot ";
export const FIRST_LINE = Buffer.from(`${FORMAT}${String(VERSION).padStart(2, "0")} ${ORDER}\n`, "latin1");
export const SECTION_HEAD_BYTES = 16;

/** What a section may be. Who meets another type does not know what it would forget, and refuses the file. */
export const SECTION = {
  /** When the snapshot was begun, in microseconds; the key that hashes are made with. */
  begin: "HEAD",
  /** Records of buckets whose state is numbers: 40 bytes each. */
  numbers: "NUMS",
  /** Records of sliding logs, whose first number says how many entries follow: 16 bytes each. */
  logs: "LOGS",
  /** Text: buckets with payments that wait for their settlement, and what was settled (hold-text.ts). */
  holds: "HOLD",
  /** How many buckets there are of either kind; nothing follows. */
  end: "DONE",
} as const;
type SectionType = (typeof SECTION)[keyof typeof SECTION];

/** Longest section that is believed, so that a damaged length takes no more memory; those written have some 2 MB at most. */
export const SECTION_BYTES_MAX = 67_108_864;

/** Checksum of the first line and of all sections that were added since. */
export class RunningChecksum {
  #value = crc32(FIRST_LINE);

  /** Adds a section; returns the checksum that stands in its head. */
  add(section: Uint8Array): number {
    this.#value = crc32(section.subarray(0, 8), this.#value);
    this.#value = crc32(section.subarray(SECTION_HEAD_BYTES), this.#value);
    return this.#value;
  }
}

/** Says in one sentence what is wrong with a first line; undefined if it is ours. */
export function troubleOfFirstLine(line: Buffer): string | undefined {
  if (line.equals(FIRST_LINE)) return undefined;
  const expected = JSON.stringify(FIRST_LINE.toString("latin1"));
  const match = /^headgate snapshot (\d\d) (le|be)\n$/.exec(line.toString("latin1"));
  if (match === null)
    return `expected a file that begins with ${expected}, got ${JSON.stringify(line.toString("latin1"))}`;
  if (Number(match[1]) !== VERSION)
    return `expected version ${VERSION} at byte ${FORMAT.length}, got ${Number(match[1])}: another version of Headgate wrote it`;
  return `expected numbers in this machine's order at byte ${FORMAT.length}, ${ORDER}, got ${match[2]}`;
}

/** One section that is filled from front to back, again and again. It grows when it must. */
export class SectionBuffer {
  #buffer: ArrayBuffer;
  numbers: Float64Array;
  words: Int32Array;
  /** Bytes in use, the head included; always a multiple of 8. */
  end = SECTION_HEAD_BYTES;

  constructor(bytes: number) {
    this.#buffer = new ArrayBuffer(bytes);
    this.numbers = new Float64Array(this.#buffer);
    this.words = new Int32Array(this.#buffer);
  }

  get isEmpty(): boolean {
    return this.end === SECTION_HEAD_BYTES;
  }

  /** Makes room for so many bytes, a multiple of 8; `numbers` and `words` may be others then. Returns the first, counted in words. */
  add(bytes: number): number {
    const at = this.end;
    this.end += bytes;
    if (this.end > this.#buffer.byteLength) {
      const old = this.words;
      this.#buffer = new ArrayBuffer(Math.ceil((this.end * 1.5) / 8) * 8);
      this.numbers = new Float64Array(this.#buffer);
      this.words = new Int32Array(this.#buffer);
      this.words.set(old.subarray(0, at / 4));
    }
    return at / 4;
  }

  /** Adds one-byte text, with blanks after it up to a whole number. */
  addText(text: string): void {
    const at = this.add(Math.ceil(text.length / 8) * 8) * 4;
    const bytes = Buffer.from(this.#buffer, at, this.end - at);
    bytes.fill(" ");
    bytes.write(text, "latin1");
  }

  /** The section's bytes; good until the next `add`, which begins a new one. */
  finish(type: SectionType, checksum: RunningChecksum): Uint8Array {
    const section = Buffer.from(this.#buffer, 0, this.end);
    section.write(type, 0, "latin1");
    this.words[1] = this.end - SECTION_HEAD_BYTES;
    this.words[2] = checksum.add(section);
    this.words[3] = 0;
    this.end = SECTION_HEAD_BYTES;
    return section;
  }
}
