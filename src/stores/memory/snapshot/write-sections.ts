// Makes the sections of a snapshot one after another, while takes come between them. Each bucket is copied at one moment between begin and
// end of the snapshot; different buckets may be of different moments.

import { LogState } from "../../../engine/algorithms/log-state.ts";
import { divideDown, MICROS_PER_SECOND } from "../../../engine/base/units.ts";
import { hashKeyInUse } from "../../../engine/domain/key-bytes.ts";
import { type BucketPages, PAGE_SLOTS, RECORD_WORDS } from "../bucket-pages.ts";
import type { Buckets, RecordViewer } from "../buckets.ts";
import { holdTexts } from "./hold-text.ts";
import { FIRST_LINE, RunningChecksum, SECTION, SectionBuffer } from "./sections.ts";

const RECORD_BYTES = RECORD_WORDS * 4;
/** Bytes at which a section is written: some 1,600 buckets, which take a millisecond before the code is compiled. */
const SECTION_BYTES = 65_536;

/** The content of a snapshot. A bucket that moved meanwhile counts twice. */
export interface SnapshotCounts {
  buckets: number;
  logs: number;
}

/**
 * Yields the bytes of a snapshot in pieces, each valid until the next is asked for, and each well under a millisecond of work. `counts` is
 * complete at the end.
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
  // Pages may be added meanwhile, up to the bound on pages.
  for (let page = 0; page < buckets.pageCount; page++) {
    const nowS = divideDown(nowUs(), MICROS_PER_SECOND);
    copy.begin(page, nowS);
    if (copy.numbers.end >= sectionBytes) yield copy.numbers.finish(SECTION.numbers, checksum);
    while (copy.nextLog(nowS)) if (copy.logs.end >= sectionBytes) yield copy.logs.finish(SECTION.logs, checksum);
  }
  if (!copy.numbers.isEmpty) yield copy.numbers.finish(SECTION.numbers, checksum);
  if (!copy.logs.isEmpty) yield copy.logs.finish(SECTION.logs, checksum);
  // After all buckets: a bucket with holds is written again here, as it is by then.
  for (const text of holdTexts(buckets, () => divideDown(nowUs(), MICROS_PER_SECOND))) {
    copy.logs.addText(text);
    yield copy.logs.finish(SECTION.holds, checksum);
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

/** Copies the buckets of one page after another into two section buffers. */
class PageCopy implements RecordViewer {
  readonly #buckets: Buckets;
  readonly numbers = new SectionBuffer(PAGE_SLOTS * RECORD_BYTES);
  readonly logs = new SectionBuffer(PAGE_SLOTS * RECORD_BYTES);
  bucketCount = 0;
  logCount = 0;
  /** Copies of the page's records with logs, by which each is found again: the logs of a page may have a hundred thousand payments. */
  readonly #withLog = new Int32Array(PAGE_SLOTS * RECORD_WORDS);
  #withLogEnd = 0;
  #isLogWanted = false;
  readonly #log = new LogState();

  constructor(buckets: Buckets) {
    this.#buckets = buckets;
  }

  /** Copies the page's records with numbers, and remembers those with logs. */
  begin(page: number, nowS: number): void {
    this.#withLogEnd = 0;
    this.#isLogWanted = false;
    this.#buckets.viewPage(page, nowS, this);
  }

  /** Copies the next remembered record with its log, if it still exists. False if there is none left. */
  nextLog(nowS: number): boolean {
    if (this.#withLogEnd === 0) return false;
    this.#withLogEnd -= RECORD_WORDS;
    this.#isLogWanted = true;
    this.#buckets.viewRecord(this.#withLog, this.#withLogEnd, nowS, this);
    return true;
  }

  view(pages: BucketPages, slot: number, log: number): void {
    if (log === 0) {
      const at = this.numbers.add(RECORD_BYTES);
      pages.copyTo(slot, this.numbers.words, at);
      this.bucketCount++;
    } else if (this.#isLogWanted) this.#copyLog(pages, slot, log);
    else {
      pages.copyTo(slot, this.#withLog, this.#withLogEnd);
      this.#withLogEnd += RECORD_WORDS;
    }
  }

  #copyLog(pages: BucketPages, slot: number, log: number): void {
    const copy = this.#log;
    this.#buckets.logs.read(log, copy);
    const at = this.logs.add(RECORD_BYTES + copy.length * 8);
    pages.copyTo(slot, this.logs.words, at);
    this.logs.numbers[at / 2] = copy.count;
    for (let i = 0; i < copy.length; i++) this.logs.numbers[(at + RECORD_WORDS) / 2 + i] = copy.numbers[i] as number;
    this.logCount++;
  }
}
