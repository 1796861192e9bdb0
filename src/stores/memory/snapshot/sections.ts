// The bytes of a snapshot: a first line that names format and version, then sections of one type each. A section's checksum covers all
// bytes up to its end, so that no section can be lost, changed or taken from another file. Numbers have this machine's byte order, which
// the first line names.
//
//   24 bytes  "headgate snapshot 02 le\n"
//   section   4 bytes type, 4 bytes length of the content, 4 bytes checksum (CRC-32), 4 bytes of zeros, the content

import { endianness } from "node:os";
import { crc32 } from "node:zlib";

const VERSION = 2;
const ORDER = endianness().toLowerCase();
const FORMAT = "headgate snapshot ";
export const FIRST_LINE = Buffer.from(`${FORMAT}${String(VERSION).padStart(2, "0")} ${ORDER}\n`, "latin1");
export const SECTION_HEAD_BYTES = 16;

/** Types of sections. A file with another type is refused, because ignoring it might lose buckets. */
export const SECTION = {
  /** When the snapshot was begun, in microseconds since the epoch; the key of its hashes. */
  begin: "HEAD",
  /** Records of buckets with numbers: 40 bytes each. */
  numbers: "NUMS",
  /** Records with sliding logs; the first number of a record is the number of payments, whose numbers (LogState) follow. */
  logs: "LOGS",
  /** Text: buckets with unsettled payments, and names of settled holds (hold-text.ts). */
  holds: "HOLD",
  /** The numbers of buckets of either kind; nothing follows. */
  end: "DONE",
} as const;
type SectionType = (typeof SECTION)[keyof typeof SECTION];

/** Longest section that is read, so that a damaged length does not take more memory. Written sections have some 2 MB at most. */
export const SECTION_BYTES_MAX = 67_108_864;

/** Checksum of the first line and of all sections added so far. */
export class RunningChecksum {
  #value = crc32(FIRST_LINE);

  /** Adds a section; returns the checksum for its head. */
  add(section: Uint8Array): number {
    this.#value = crc32(section.subarray(0, 8), this.#value);
    this.#value = crc32(section.subarray(SECTION_HEAD_BYTES), this.#value);
    return this.#value;
  }
}

/** What is wrong with a first line, in one sentence; undefined if it is right. */
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

/** A buffer that is filled with one section after another, and grows when it must. */
export class SectionBuffer {
  #buffer: ArrayBuffer;
  numbers: Float64Array;
  words: Int32Array;
  /** Bytes in use, with the head; always a multiple of 8. */
  end = SECTION_HEAD_BYTES;

  constructor(bytes: number) {
    this.#buffer = new ArrayBuffer(bytes);
    this.numbers = new Float64Array(this.#buffer);
    this.words = new Int32Array(this.#buffer);
  }

  get isEmpty(): boolean {
    return this.end === SECTION_HEAD_BYTES;
  }

  /** Adds `bytes` bytes, a multiple of 8, and returns the first one's index in words. May replace `numbers` and `words`. */
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

  /** Adds one-byte text, padded with blanks to a multiple of 8 bytes. */
  addText(text: string): void {
    const at = this.add(Math.ceil(text.length / 8) * 8) * 4;
    const bytes = Buffer.from(this.#buffer, at, this.end - at);
    bytes.fill(" ");
    bytes.write(text, "latin1");
  }

  /** The section's bytes, valid until the next `add`, which begins a new section. */
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
