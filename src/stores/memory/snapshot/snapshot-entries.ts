// A snapshot as bytes: a first line that names format and version, entries of numbers (snapshot-format.ts), and the checksum of all bytes before
// it. Everything after the first line is 64-bit numbers in this machine's byte order, which that line names; before each entry stands its
// length. A file is checked as a whole before any entry of it is read.

import { endianness } from "node:os";
import { crc32 } from "node:zlib";

const FORMAT = "headgate snapshot ";
const FIRST_LINE = Buffer.from(`${FORMAT}04 ${endianness().toLowerCase()}\n`, "latin1");
const NUMBER_BYTES = 8;
/** Above the longest entry: that of a bucket with as many holds as it may have. */
const BUFFER_NUMBERS = 262_144;

/** The file is no usable snapshot. The message says what was expected and what came. */
export class SnapshotRefused extends Error {
  override readonly name = "SnapshotRefused";
}

export function refuse(expected: string, got: string): never {
  throw new SnapshotRefused(`expected ${expected}, got ${got}`);
}

/** A file, or what a test has in its place. */
export interface SnapshotBytes {
  readonly size: number;
  /** Reads bytes from that place on; returns fewer than it has room for only at the end. */
  read(into: Uint8Array, from: number): number;
}

/** The bytes of those entries, in pieces that are valid until the next is asked for. */
export function* piecesOf(entries: Iterable<readonly (readonly number[])[]>): Generator<Uint8Array, void, void> {
  const numbers = new Float64Array(BUFFER_NUMBERS);
  let checksum = crc32(FIRST_LINE);
  let end = 0;
  const take = () => {
    const piece = new Uint8Array(numbers.buffer, 0, end * NUMBER_BYTES);
    checksum = crc32(piece, checksum);
    end = 0;
    return piece;
  };
  yield FIRST_LINE;
  for (const some of entries) {
    for (const entry of some) {
      if (end + 1 + entry.length > BUFFER_NUMBERS) yield take();
      numbers[end++] = entry.length;
      for (const number of entry) numbers[end++] = number;
    }
  }
  yield take();
  numbers[0] = checksum;
  yield new Uint8Array(numbers.buffer, 0, NUMBER_BYTES);
}

/** The entries, each valid until the next is asked for. Throws SnapshotRefused before the first of them if the file was cut or changed, or is none. */
export function* entriesOf(file: SnapshotBytes): Generator<Float64Array, void, void> {
  const end = file.size - NUMBER_BYTES;
  expectWhole(file, end);
  const numbers = new Float64Array(BUFFER_NUMBERS);
  const bytes = new Uint8Array(numbers.buffer);
  let length = 0;
  for (let at = FIRST_LINE.length; at < end; ) {
    const read = file.read(bytes.subarray(length * NUMBER_BYTES).subarray(0, end - at), at);
    if (read === 0) break;
    at += read;
    length += read / NUMBER_BYTES;
    let from = 0;
    while (from < length) {
      const next = from + 1 + (numbers[from] as number);
      if (!Number.isInteger(next) || next <= from + 1 || next > from + BUFFER_NUMBERS)
        refuse("the length of an entry", String(numbers[from]));
      if (next > length) break;
      yield numbers.subarray(from + 1, next);
      from = next;
    }
    numbers.copyWithin(0, from, length);
    length -= from;
  }
  if (length > 0) refuse("a whole entry", "the end of the file");
}

/** Throws if what is written last is not the checksum of the bytes up to `end`, or the first line is another one. */
function expectWhole(file: SnapshotBytes, end: number): void {
  const first = Buffer.alloc(FIRST_LINE.length);
  const line = first.subarray(0, file.read(first, 0));
  if (!line.equals(FIRST_LINE)) {
    const why = line.indexOf(FORMAT) === 0 ? ": another version of Headgate, or another kind of machine, wrote it" : "";
    const [expected, got] = [FIRST_LINE, line].map((one) => JSON.stringify(one.toString("latin1")));
    refuse(`a file that begins with ${expected}`, `${got}${why}`);
  }
  const buffer = Buffer.allocUnsafe(BUFFER_NUMBERS * NUMBER_BYTES);
  let checksum = 0;
  for (let at = 0; at < end; ) {
    const piece = buffer.subarray(0, file.read(buffer.subarray(0, end - at), at));
    if (piece.length === 0) break;
    checksum = crc32(piece, checksum);
    at += piece.length;
  }
  const last = new Float64Array(1);
  const isCut = end < FIRST_LINE.length || file.size % NUMBER_BYTES !== 0;
  if (!isCut) file.read(new Uint8Array(last.buffer), end);
  if (isCut || last[0] !== checksum)
    refuse(`checksum ${checksum} at the end of ${file.size} bytes`, `${last[0]}: the file was cut or changed`);
}
