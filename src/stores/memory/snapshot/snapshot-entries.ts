// A snapshot as bytes: a first line that names format and version, then blocks of 64-bit numbers in this machine's byte
// order, which that line names. A block is a checksum, the count of the numbers that follow, and entries
// (snapshot-format.ts), each after its length. The checksum is of all before it, too, so blocks are neither missing nor
// strange; the last block is empty. A block is checked before any entry of it is read, and entries of a right checksum
// are trusted: this version has written them.

import { endianness } from "node:os";
import { crc32 } from "node:zlib";

const FORMAT = "headgate snapshot ";
const FIRST_LINE = Buffer.from(`${FORMAT}05 ${endianness().toLowerCase()}\n`, "latin1");
const NUMBER_BYTES = 8;
/** Checksum and count. */
const HEAD_NUMBERS = 2;
/** Above the longest entry: that of a bucket with as many holds as it may have. */
const BLOCK_NUMBERS = 262_144;

/** Reads bytes into the buffer from that place of a file on; returns fewer than it has room for only at the end. */
export type ReadBytes = (into: Uint8Array, from: number) => Promise<number>;

/** The bytes of those entries, in pieces that are valid until the next is asked for. */
export async function* piecesOf(
  entries: AsyncIterable<readonly ArrayLike<number>[]>,
): AsyncGenerator<Uint8Array, void, void> {
  const numbers = new Float64Array(BLOCK_NUMBERS);
  let checksum = crc32(FIRST_LINE);
  let end = HEAD_NUMBERS;
  const take = () => {
    numbers[1] = end - HEAD_NUMBERS;
    const piece = new Uint8Array(numbers.buffer, 0, end * NUMBER_BYTES);
    checksum = crc32(piece.subarray(NUMBER_BYTES), checksum);
    numbers[0] = checksum;
    end = HEAD_NUMBERS;
    return piece;
  };
  yield FIRST_LINE;
  for await (const some of entries) {
    for (const entry of some) {
      if (end + 1 + entry.length > BLOCK_NUMBERS) yield take();
      numbers[end++] = entry.length;
      numbers.set(entry, end);
      end += entry.length;
    }
  }
  if (end > HEAD_NUMBERS) yield take();
  yield take();
}

/**
 * The blocks, each valid until the next is asked for. Throws where the file was cut or changed: what was taken from it
 * before is not to be used.
 */
export async function* blocksOf(read: ReadBytes): AsyncGenerator<Float64Array, void, void> {
  await expectFirstLine(read);
  const numbers = new Float64Array(BLOCK_NUMBERS);
  const bytes = new Uint8Array(numbers.buffer);
  let checksum = crc32(FIRST_LINE);
  let at = FIRST_LINE.length;
  for (let end = 0; end !== HEAD_NUMBERS; at += end * NUMBER_BYTES) {
    const head = await read(bytes.subarray(0, HEAD_NUMBERS * NUMBER_BYTES), at);
    end = HEAD_NUMBERS + (numbers[1] as number);
    if (head < HEAD_NUMBERS * NUMBER_BYTES || !(end <= BLOCK_NUMBERS)) refuseChanged(at);
    const size = await read(bytes.subarray(0, end * NUMBER_BYTES), at);
    checksum = crc32(bytes.subarray(NUMBER_BYTES, size), checksum);
    if (numbers[0] !== checksum) refuseChanged(at);
    yield numbers.subarray(HEAD_NUMBERS, end);
  }
  if ((await read(bytes, at)) > 0) refuseChanged(at);
}

/** The entries of a block. */
export function* entriesToKeep(block: Float64Array): Generator<Float64Array, void, void> {
  for (let from = 0; from < block.length; from += 1 + (block[from] as number))
    yield block.subarray(from + 1, from + 1 + (block[from] as number));
}

async function expectFirstLine(read: ReadBytes): Promise<void> {
  const first = Buffer.alloc(FIRST_LINE.length);
  const line = first.subarray(0, await read(first, 0));
  if (line.equals(FIRST_LINE)) return;
  const why = line.indexOf(FORMAT) === 0 ? ": another version of Headgate, or another kind of machine, wrote it" : "";
  const [expected, got] = [FIRST_LINE, line].map((one) => JSON.stringify(one.toString("latin1")));
  throw new Error(`expected a file that begins with ${expected}, got ${got}${why}`);
}

function refuseChanged(at: number): never {
  throw new Error(`expected a checksum of what follows at byte ${at}, got another: the file was cut or changed`);
}
