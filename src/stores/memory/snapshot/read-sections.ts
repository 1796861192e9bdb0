// Reads a snapshot into buckets, section by section. Nothing is trusted: whatever differs from what is written is refused with what was
// expected, what came, and at which byte.

import { setImmediate as nextTurn } from "node:timers/promises";
import { LogState } from "../../../engine/algorithms/log-state.ts";
import type { LongWork } from "../../../engine/base/long-work.ts";
import { divideDown, MICROS_PER_SECOND } from "../../../engine/base/units.ts";
import { HASH_KEY_BYTES } from "../../../engine/domain/key-bytes.ts";
import { type Limit, LOG_PAYMENTS_MAX } from "../../../engine/domain/limit.ts";
import { expiryOfRecord, RECORD_WORDS } from "../bucket-pages.ts";
import type { Buckets } from "../buckets.ts";
import { limitOfNumbers, readHoldText, type WrittenBucket } from "./hold-text.ts";
import {
  FIRST_LINE,
  RunningChecksum,
  SECTION,
  SECTION_BYTES_MAX,
  SECTION_HEAD_BYTES,
  troubleOfFirstLine,
} from "./sections.ts";

const RECORD_BYTES = RECORD_WORDS * 4;

/** Records and logs per turn of the event loop; a turn takes a millisecond or two before the code is compiled. */
const RECORDS_PER_TURN = 512;
const LOGS_PER_TURN = 16;

/** The bytes of a snapshot, such as an open file. */
export interface ByteSource {
  /** Reads up to `length` bytes at `position` into `buffer` from `offset` on. Resolves to 0 bytes at the end. */
  read(buffer: Buffer, offset: number, length: number, position: number): Promise<{ readonly bytesRead: number }>;
}

/** The result of reading a snapshot. */
export interface ReadSnapshot {
  readonly beganAtUs: number;
  /** The key of the snapshot's hashes. */
  readonly hashKey: Buffer;
  /** Bytes of the whole snapshot. */
  readonly bytes: number;
  /** Buckets kept, buckets that had expired, and logs for which SLIDING_LOG_BYTES_MAX has no room. */
  readonly kept: number;
  readonly ended: number;
  readonly withoutRoom: number;
}

/** The file is no usable snapshot. The message says what was expected, what came, and where. */
export class SnapshotRefused extends Error {
  override readonly name = "SnapshotRefused";
}

/** A section; `words` and `numbers` are views of all its bytes, the head included. */
interface Section {
  readonly type: string;
  readonly at: number;
  readonly bytes: Buffer;
  readonly words: Int32Array;
  readonly numbers: Float64Array;
}

/**
 * Reads all buckets that expire after `nowUs` into `buckets`. Rejects with SnapshotRefused if anything is wrong; `buckets` can't be used
 * then. Other work runs meanwhile.
 */
export async function readSections(source: ByteSource, buckets: Buckets, nowUs: number): Promise<ReadSnapshot> {
  const reader = new SectionReader(source);
  await reader.begin();
  const first = await reader.next();
  if (first.type !== SECTION.begin) refuse(first, `the section ${SECTION.begin} first`, first.type);
  expectLength(first, 8 + HASH_KEY_BYTES);
  const beganAtUs = first.numbers[2] as number;
  const hashKey = Buffer.alloc(HASH_KEY_BYTES);
  for (let i = 0; i < HASH_KEY_BYTES / 4; i++) hashKey.writeInt32LE(first.words[6 + i] as number, i * 4);
  const intake = new Intake(buckets, divideDown(nowUs, MICROS_PER_SECOND));
  for (;;) {
    const section = await reader.next();
    if (section.type === SECTION.numbers) await inTurns(intake.takeNumbers(section));
    else if (section.type === SECTION.logs) await inTurns(intake.takeLogs(section));
    else if (section.type === SECTION.holds) intake.takeHolds(section);
    else if (section.type === SECTION.end) {
      expectLength(section, 16);
      intake.checkCounts(section);
      await reader.expectEnd();
      const { kept, ended, withoutRoom } = intake;
      return { beganAtUs, hashKey, bytes: reader.at, kept, ended, withoutRoom };
    } else {
      const known = Object.values(SECTION).join(", ");
      refuse(section, `one of the sections ${known}`, `${section.type}: another version of Headgate wrote it`);
    }
  }
}

async function inTurns(work: LongWork<void>): Promise<void> {
  while (work.next().done !== true) await nextTurn();
}

/** Reads sections and checks their checksums. */
class SectionReader {
  readonly #source: ByteSource;
  readonly #checksum = new RunningChecksum();
  #buffer = Buffer.from(new ArrayBuffer(SECTION_HEAD_BYTES));
  /** Number of bytes read. */
  at = 0;

  constructor(source: ByteSource) {
    this.#source = source;
  }

  async begin(): Promise<void> {
    const line = Buffer.alloc(FIRST_LINE.length);
    const got = await this.#fill(line, 0);
    const trouble = troubleOfFirstLine(line.subarray(0, got));
    if (trouble !== undefined) throw new SnapshotRefused(trouble);
  }

  async next(): Promise<Section> {
    const { at } = this;
    const head = Buffer.from(new ArrayBuffer(SECTION_HEAD_BYTES));
    await this.#need(head, 0, "the head of a section");
    const type = head.toString("latin1", 0, 4);
    const [, length = 0, checksum = 0, zero] = new Int32Array(head.buffer);
    if (length < 0 || length % 8 !== 0 || length > SECTION_BYTES_MAX || zero !== 0)
      refuse({ at }, "a section's length and zeros", `${length} and ${zero}: the file was changed`);
    if (this.#buffer.length < SECTION_HEAD_BYTES + length)
      this.#buffer = Buffer.from(new ArrayBuffer(SECTION_HEAD_BYTES + length));
    head.copy(this.#buffer);
    const bytes = this.#buffer.subarray(0, SECTION_HEAD_BYTES + length);
    await this.#need(bytes, SECTION_HEAD_BYTES, `the section ${JSON.stringify(type)}`);
    const counted = this.#checksum.add(bytes) | 0;
    if (counted !== checksum) refuse({ at }, `checksum ${hex(checksum)}`, `${hex(counted)}: the file was changed`);
    const { buffer } = this.#buffer;
    return { type, at, bytes, words: new Int32Array(buffer), numbers: new Float64Array(buffer) };
  }

  async expectEnd(): Promise<void> {
    const { bytesRead } = await this.#source.read(Buffer.alloc(1), 0, 1, this.at);
    if (bytesRead > 0) refuse(this, "the end of the file", "more bytes");
  }

  async #need(into: Buffer, from: number, what: string): Promise<void> {
    const { at } = this;
    const got = await this.#fill(into, from);
    if (got < into.length)
      refuse({ at }, `${into.length - from} bytes of ${what}`, `${got - from} and the end of the file: it was cut`);
  }

  /** Fills `into` from `from` on, as far as the file goes. Returns where it ended. */
  async #fill(into: Buffer, from: number): Promise<number> {
    let end = from;
    while (end < into.length) {
      const { bytesRead } = await this.#source.read(into, end, into.length - end, this.at);
      if (bytesRead === 0) break;
      end += bytesRead;
      this.at += bytesRead;
    }
    return end;
  }
}

/** Puts the records of sections into buckets. */
class Intake {
  readonly #buckets: Buckets;
  readonly #nowS: number;
  #numbers = 0;
  #logs = 0;
  readonly #log = new LogState();
  /** Limits by their numbers, because many buckets have equal ones. */
  readonly #limits = new Map<string, Limit>();
  ended = 0;
  withoutRoom = 0;

  constructor(buckets: Buckets, nowS: number) {
    this.#buckets = buckets;
    this.#nowS = nowS;
    buckets.nowS = nowS;
  }

  get kept(): number {
    return this.#buckets.count;
  }

  *takeNumbers({ at: sectionAt, bytes, words, numbers }: Section): LongWork<void> {
    for (let byte = SECTION_HEAD_BYTES; byte < bytes.length; byte += RECORD_BYTES) {
      if (this.#numbers % RECORDS_PER_TURN === 0) yield;
      const at = byte / 4;
      if (!isRecord(words, numbers, at, bytes.length))
        refuse({ at: sectionAt + byte }, "a record of whole numbers", `${numbers[at / 2]}, ${numbers[at / 2 + 1]}`);
      this.#numbers++;
      if (expiryOfRecord(words, at) > this.#nowS) this.#buckets.putRecord(words, at, 0);
      else this.ended++;
    }
  }

  *takeLogs({ at: sectionAt, bytes, words, numbers }: Section): LongWork<void> {
    let byte = SECTION_HEAD_BYTES;
    while (byte < bytes.length) {
      if (this.#logs % LOGS_PER_TURN === 0) yield;
      const payments = numbers[byte / 8] ?? 0;
      if (!isWhole(payments) || payments === 0 || payments > LOG_PAYMENTS_MAX)
        refuse({ at: sectionAt + byte }, `a log of at most ${LOG_PAYMENTS_MAX} payments`, String(payments));
      this.#log.begin(payments);
      const end = byte + RECORD_BYTES + this.#log.length * 8;
      if (end > bytes.length) refuse({ at: sectionAt + byte }, "a log with its payments", `${payments} payments`);
      for (let i = 0; i < this.#log.length; i++)
        this.#log.numbers[i] = numbers[(byte + RECORD_BYTES) / 8 + i] as number;
      if (!this.#log.isSound) refuse({ at: sectionAt + byte }, "payments in the order of their times", "others");
      this.#logs++;
      this.#takeLog(words, byte / 4);
      byte = end;
    }
  }

  #takeLog(words: Int32Array, at: number): void {
    const { logs } = this.#buckets;
    if (expiryOfRecord(words, at) <= this.#nowS) this.ended++;
    else if (logs.hasRoomFor(this.#log.count)) this.#buckets.putRecord(words, at, logs.write(0, this.#log));
    else this.withoutRoom++;
  }

  /** Reads at most some hundred holds, which takes half a millisecond. */
  takeHolds({ at, bytes }: Section): void {
    const read = readHoldText(bytes.toString("latin1", SECTION_HEAD_BYTES));
    if (read === undefined) refuse({ at }, "holds as they are written", "other text");
    for (const bucket of read.buckets ?? []) this.#takeHoldsOf(bucket, at);
    for (const [name, forgetAtUs] of read.settled ?? []) this.#buckets.holds.keepSettled(name, forgetAtUs);
  }

  #takeHoldsOf({ key, record, lows, limit, holds }: WrittenBucket, at: number): void {
    const { holds: book } = this.#buckets;
    if (record !== undefined) {
      const words = Int32Array.from(record);
      const [atUs, used] = new Float64Array(words.buffer);
      if (!isWhole(atUs) || !isWhole(used)) refuse({ at }, "a record of whole numbers", `${atUs}, ${used}`);
      if (expiryOfRecord(words, 0) > this.#nowS) this.#buckets.putRecord(words, 0, 0);
      else this.#buckets.removeRecord(words, 0);
      book.drop(key);
    }
    const of = this.#limits.get(String(limit)) ?? limitOfNumbers(limit);
    this.#limits.set(String(limit), of);
    const kept = holds.map(([id, cost, paidAtUs, endsAtUs, payment]) => ({ id, cost, paidAtUs, endsAtUs, payment }));
    book.keep(key, of, lows, kept);
  }

  checkCounts(end: Section): void {
    const [numbers, logs] = [end.numbers[2], end.numbers[3]];
    if (numbers !== this.#numbers || logs !== this.#logs)
      refuse(end, `${numbers} buckets and ${logs} logs`, `${this.#numbers} and ${this.#logs}`);
  }
}

/** Not "safe integer": counters of COMPATIBILITY_MODE may exceed 2^53, where numbers are whole but not exact. */
function isWhole(value: number | undefined): boolean {
  return Number.isInteger(value) && (value as number) >= 0;
}

/** Whether there is a valid record at word `at`; `end` is the end of the section, in bytes. */
function isRecord(words: Int32Array, numbers: Float64Array, at: number, end: number): boolean {
  const isInside = at * 4 + RECORD_BYTES <= end;
  return isInside && isWhole(numbers[at / 2]) && isWhole(numbers[at / 2 + 1]) && expiryOfRecord(words, at) > 0;
}

function expectLength({ at, bytes }: Section, length: number): void {
  if (bytes.length !== SECTION_HEAD_BYTES + length)
    refuse({ at }, `a section of ${length} bytes`, `${bytes.length - SECTION_HEAD_BYTES}`);
}

function hex(checksum: number): string {
  return (checksum >>> 0).toString(16).padStart(8, "0");
}

function refuse({ at }: { readonly at: number }, expected: string, got: string): never {
  throw new SnapshotRefused(`expected ${expected} at byte ${at}, got ${got}`);
}
