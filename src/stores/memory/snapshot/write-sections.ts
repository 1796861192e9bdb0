// The sections of a snapshot, one after another, while takes go on between them. Each page of buckets is copied in one go, so
// a bucket is as it was at one moment after the begin and before the end; two buckets may be of different moments.

import { copyLog, ENTRY_NUMBERS, entriesOfLog } from "../../../algorithms/log-copy.ts";
import { hashKeyInUse } from "../../../core/key-hash.ts";
import { divideDown, MICROS_PER_SECOND } from "../../../core/units.ts";
import { type BucketPages, PAGE_SLOTS, RECORD_WORDS } from "../bucket-pages.ts";
import type { Buckets, PageViewer } from "../buckets.ts";
import { FIRST_LINE, RunningChecksum, SECTION, SectionBuffer } from "./sections.ts";

const RECORD_BYTES = RECORD_WORDS * 4;
const ENTRY_BYTES = ENTRY_NUMBERS * 8;
/** A section is written as soon as it has so many bytes; copying and checking them takes some 0.2 ms. */
const SECTION_BYTES = 262_144;

/** What a snapshot holds. A bucket that moved meanwhile counts twice. */
export interface SnapshotCounts {
  buckets: number;
  logs: number;
}

/**
 * Yields the bytes of a snapshot in pieces, each good until the next is asked for, and each some 0.2 ms of work (1 ms with a
 * page full of long logs). `counts` is complete when it ends.
 */
export function* sectionsOf(
  buckets: Buckets,
  nowUs: () => number,
  counts: SnapshotCounts,
  sectionBytes = SECTION_BYTES,
): Generator<Uint8Array, void, void> {
  const copy = new PageCopy(buckets);
  const checksum = new RunningChecksum();
  yield FIRST_LINE;
  yield beginOf(nowUs(), checksum);
  // More pages may come meanwhile; at most as many as there may be.
  for (let page = 0; page < buckets.pageCount; page++) {
    buckets.viewPage(page, divideDown(nowUs(), MICROS_PER_SECOND), copy);
    const isLast = page + 1 === buckets.pageCount;
    if (!copy.numbers.isEmpty && (isLast || copy.numbers.end >= sectionBytes))
      yield copy.numbers.finish(SECTION.numbers, checksum);
    if (!copy.logs.isEmpty && (isLast || copy.logs.end >= sectionBytes)) yield copy.logs.finish(SECTION.logs, checksum);
  }
  counts.buckets = copy.bucketCount;
  counts.logs = copy.logCount;
  yield endOf(counts, checksum);
}

function beginOf(nowUs: number, checksum: RunningChecksum): Uint8Array {
  const section = new SectionBuffer(64);
  section.numbers[section.add(8) / 2] = nowUs;
  const key = hashKeyInUse();
  const at = section.add(key.length);
  for (let i = 0; i < key.length / 4; i++) section.words[at + i] = key.readInt32LE(i * 4);
  return section.finish(SECTION.begin, checksum);
}

function endOf({ buckets, logs }: SnapshotCounts, checksum: RunningChecksum): Uint8Array {
  const section = new SectionBuffer(64);
  const at = section.add(16) / 2;
  section.numbers[at] = buckets;
  section.numbers[at + 1] = logs;
  return section.finish(SECTION.end, checksum);
}

/** Copies what it is shown into two sections. */
class PageCopy implements PageViewer {
  readonly #buckets: Buckets;
  readonly numbers = new SectionBuffer(PAGE_SLOTS * RECORD_BYTES);
  readonly logs = new SectionBuffer(PAGE_SLOTS * RECORD_BYTES);
  bucketCount = 0;
  logCount = 0;

  constructor(buckets: Buckets) {
    this.#buckets = buckets;
  }

  view(pages: BucketPages, slot: number, log: number): void {
    if (log === 0) {
      const at = this.numbers.add(RECORD_BYTES);
      pages.copyTo(slot, this.numbers.words, at);
      this.bucketCount++;
      return;
    }
    const entries = entriesOfLog(this.#buckets.logs, log);
    if (entries === 0) return;
    const at = this.logs.add(RECORD_BYTES + entries * ENTRY_BYTES);
    pages.copyTo(slot, this.logs.words, at);
    this.logs.numbers[at / 2] = entries;
    copyLog(this.#buckets.logs, log, this.logs.numbers, (at + RECORD_WORDS) / 2);
    this.logCount++;
  }
}
