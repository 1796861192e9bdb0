// The chunks of a snapshot (snapshot-format.ts): collected and read, with their checksums.

import { endianness } from "node:os";
import { crc32 } from "node:zlib";
import { ID_BYTES_MAX } from "../../../engine/algorithms/hold-records.ts";
import type { KeyHash } from "../../../engine/domain/key-bytes.ts";

const VERSION = 3;
const ORDER = endianness().toLowerCase();
const FORMAT = "headgate snapshot ";
export const FIRST_LINE = Buffer.from(`${FORMAT}${String(VERSION).padStart(2, "0")} ${ORDER}\n`, "latin1");
const CHUNK_HEAD_BYTES = 8;
/** Longest chunk that is read, so that a damaged length does not take more memory. */
const CHUNK_BYTES_MAX = 4_194_304;
const ID_NUMBERS = ID_BYTES_MAX / 8;

/** The file is no usable snapshot. The message says what was expected, what came, and where. */
export class SnapshotRefused extends Error {
  override readonly name = "SnapshotRefused";
}

function refuseAt(byte: number, expected: string, got: string): never {
  throw new SnapshotRefused(`expected ${expected} at byte ${byte}, got ${got}`);
}

function hex(checksum: number): string {
  return (checksum >>> 0).toString(16).padStart(8, "0");
}

/** What is wrong with a first line, in one sentence; undefined if it is right. */
function troubleOfFirstLine(line: Buffer): string | undefined {
  if (line.equals(FIRST_LINE)) return undefined;
  const expected = JSON.stringify(FIRST_LINE.toString("latin1"));
  const match = /^headgate snapshot (\d\d) (le|be)\n$/.exec(line.toString("latin1"));
  if (match === null)
    return `expected a file that begins with ${expected}, got ${JSON.stringify(line.toString("latin1"))}`;
  if (Number(match[1]) !== VERSION)
    return `expected version ${VERSION} at byte ${FORMAT.length}, got ${Number(match[1])}: another version of Headgate wrote it`;
  return `expected numbers in this machine's order at byte ${FORMAT.length}, ${ORDER}, got ${match[2]}`;
}

/** The checksum of a chunk whose head has the length, after what came before it. */
function checksumOf(chunk: Uint8Array, before: number): number {
  return crc32(chunk.subarray(CHUNK_HEAD_BYTES), crc32(chunk.subarray(0, 4), before));
}

/** Collects the entries of a chunk. */
export class ChunkWriter {
  #numbers = new Float64Array(16_384);
  #words = new Int32Array(this.#numbers.buffer);
  /** Numbers in use; the first is the head of the chunk. */
  #end = 1;
  #checksum = crc32(FIRST_LINE);

  /** Numbers added. */
  get size(): number {
    return this.#end - 1;
  }

  add(number: number): void {
    if (this.#end === this.#numbers.length) this.#grow();
    this.#numbers[this.#end++] = number;
  }

  addAll(numbers: Iterable<number>): void {
    for (const number of numbers) this.add(number);
  }

  /** Adds two words, in place of one number. */
  addWords(one: number, other: number): void {
    this.add(0);
    this.#words[this.#end * 2 - 2] = one;
    this.#words[this.#end * 2 - 1] = other;
  }

  addHash({ keyHash, keyHash1, keyHash2, keyHash3 }: KeyHash): void {
    this.addWords(keyHash | 0, keyHash1);
    this.addWords(keyHash2, keyHash3);
  }

  /** Adds an id; its length is written apart. */
  addId(id: string): void {
    const from = this.#end * 8;
    for (let i = 0; i < ID_NUMBERS; i++) this.add(0);
    Buffer.from(this.#numbers.buffer).write(id, from, "latin1");
  }

  /** The bytes of the chunk, valid until more is added. */
  finish(): Uint8Array {
    const chunk = Buffer.from(this.#numbers.buffer, 0, this.#end * 8);
    this.#words[0] = chunk.length - CHUNK_HEAD_BYTES;
    this.#checksum = checksumOf(chunk, this.#checksum);
    this.#words[1] = this.#checksum;
    this.#end = 1;
    return chunk;
  }

  #grow(): void {
    const old = this.#numbers;
    this.#numbers = new Float64Array(old.length * 2);
    this.#numbers.set(old);
    this.#words = new Int32Array(this.#numbers.buffer);
  }
}

/** Reads the next bytes of a snapshot into the buffer; returns fewer than it has room for only at the end. */
export type ReadBytes = (into: Uint8Array) => number;

/** Reads chunks, checks their checksums, and gives their numbers one after another. */
export class ChunkReader {
  readonly #read: ReadBytes;
  #checksum = crc32(FIRST_LINE);
  #numbers = new Float64Array(0);
  #words = new Int32Array(0);
  #at = 0;
  /** Bytes before the chunk. */
  #from = 0;
  /** Bytes read. */
  bytes = 0;

  constructor(read: ReadBytes) {
    this.#read = read;
    const line = Buffer.alloc(FIRST_LINE.length);
    this.bytes = read(line);
    const trouble = troubleOfFirstLine(line.subarray(0, this.bytes));
    if (trouble !== undefined) throw new SnapshotRefused(trouble);
  }

  get isAtEnd(): boolean {
    return this.#at === this.#numbers.length;
  }

  nextChunk(): void {
    this.#from = this.bytes;
    this.#at = 0;
    const head = new Uint32Array(2);
    this.#need(new Uint8Array(head.buffer), "the head of a chunk");
    const [length = 0, checksum = 0] = head;
    if (length === 0 || length % 8 !== 0 || length > CHUNK_BYTES_MAX)
      refuseAt(this.#from, "the length of a chunk", `${length}: the file was changed`);
    const chunk = Buffer.from(new ArrayBuffer(CHUNK_HEAD_BYTES + length));
    chunk.set(new Uint8Array(head.buffer));
    this.#need(chunk.subarray(CHUNK_HEAD_BYTES), "a chunk");
    this.#checksum = checksumOf(chunk, this.#checksum);
    if (this.#checksum !== checksum)
      refuseAt(this.#from, `checksum ${hex(checksum)}`, `${hex(this.#checksum)}: the file was changed`);
    this.#numbers = new Float64Array(chunk.buffer, CHUNK_HEAD_BYTES);
    this.#words = new Int32Array(chunk.buffer, CHUNK_HEAD_BYTES);
  }

  expectEnd(): void {
    if (!this.isAtEnd || this.#read(new Uint8Array(1)) > 0) refuseAt(this.bytes, "the end of the file", "more bytes");
  }

  number(): number {
    if (this.isAtEnd) this.refuse("a whole entry", "the end of its chunk");
    return this.#numbers[this.#at++] as number;
  }

  /** A whole number from 0 to `max`. */
  whole(what: string, max = Number.MAX_SAFE_INTEGER): number {
    const number = this.number();
    if (!Number.isSafeInteger(number) || number < 0 || number > max)
      this.refuse(
        `${what}, a whole number${max < Number.MAX_SAFE_INTEGER ? ` of at most ${max}` : ""}`,
        String(number),
      );
    return number;
  }

  wholes(count: number, what: string): number[] {
    return Array.from({ length: count }, () => this.whole(what));
  }

  /** Two words. */
  words(): [number, number] {
    this.number();
    return [this.#words[this.#at * 2 - 2] as number, this.#words[this.#at * 2 - 1] as number];
  }

  hash(into: KeyHash): void {
    const [one, other] = this.words();
    into.keyHash = one >>> 0;
    into.keyHash1 = other;
    [into.keyHash2, into.keyHash3] = this.words();
  }

  /** An id whose length was read before. */
  id(length: number): string {
    const from = this.#at * 8;
    for (let i = 0; i < ID_NUMBERS; i++) this.number();
    return Buffer.from(this.#numbers.buffer, this.#numbers.byteOffset).latin1Slice(from, from + length);
  }

  /** Throws: what was read last is not as expected. */
  refuse(expected: string, got: string): never {
    refuseAt(this.#from + CHUNK_HEAD_BYTES + Math.max(0, this.#at - 1) * 8, expected, got);
  }

  #need(into: Uint8Array, what: string): void {
    const got = this.#read(into);
    if (got < into.length)
      refuseAt(this.#from, `${into.length} bytes of ${what}`, `${got} and the end of the file: it was cut`);
    this.bytes += got;
  }
}
