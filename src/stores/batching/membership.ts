// What a process can know of the others that share its store, from its own reports alone. Pure; when to report and where
// is process-count.ts.
//
// A count that is too large costs room: each process grants less than it could. A count that is too small would grant too much. So
// the count rises at once, and falls only when this process has been on the register without a gap for GONE_AFTER_US and has seen
// no larger count in that time: by then every live process has reported, whatever became of the register's data meanwhile. And a
// process hands nothing out in advance until all others that do so have counted it.

import { MICROS_PER_MILLI } from "../../core/units.ts";

/** A process that has been silent for this long is taken off the register. */
export const GONE_AFTER_US = 10_000 * MICROS_PER_MILLI;
/** Who has counted within this time hands things out by that count. */
const FRESH_US = 2_500 * MICROS_PER_MILLI;
/** Who has been on the register for this long was counted by all whose count is fresh, and was when their leases began. */
const KNOWN_AFTER_US = 2_800 * MICROS_PER_MILLI;

/** The register's answer to a report. */
export interface ProcessPlace {
  /** Live processes, this one included. */
  readonly count: number;
  /** Place of this one in their order, from 0 on. */
  readonly index: number;
  /** It was not on the register before this report. */
  readonly isNew: boolean;
}

/** Times are of this process's clock. */
export class Membership {
  #count = 1;
  #index = -1;
  /** Others hold a place for this process. */
  #isKnown = false;
  #reportedUs = Number.NEGATIVE_INFINITY;
  /** When the last report was sent that was answered. */
  #countedUs = Number.NEGATIVE_INFINITY;
  /** Since when this process has been on the register without a gap. */
  #sinceUs = Number.POSITIVE_INFINITY;
  /** Since when only smaller counts were heard, and the largest of them. */
  #fewerSinceUs = 0;
  #fewer = 0;

  /** Live processes: never fewer than hand anything out. 1 until the first answer. */
  get count(): number {
    return this.#count;
  }

  /** Place of this process in their order; -1 while the others may not have counted it. */
  get index(): number {
    return this.#isKnown ? this.#index : -1;
  }

  /**
   * By how many to divide what is handed out in advance: all who do so at one moment divide by at least their number.
   * Infinity while that is not sure.
   */
  sureCount(nowUs: number): number {
    const isSure = nowUs - this.#sinceUs >= KNOWN_AFTER_US && nowUs - this.#countedUs <= FRESH_US;
    return isSure ? this.#count : Number.POSITIVE_INFINITY;
  }

  /** A report goes out. Who stood still for long was taken off the register meanwhile. */
  onReport(nowUs: number): void {
    if (nowUs - this.#reportedUs >= GONE_AFTER_US) this.#isKnown = false;
    this.#reportedUs = nowUs;
  }

  /** The answer to the report of `sentUs` is there. */
  onAnswer(place: ProcessPlace, sentUs: number, nowUs: number): void {
    // Without an answer to the report that put it there a process can't know since when it has been there.
    if (place.isNew || this.#sinceUs === Number.POSITIVE_INFINITY) {
      // Off for long, or the register has lost its data: only in the latter case others still hold the place.
      if (nowUs - this.#countedUs >= GONE_AFTER_US) this.#isKnown = false;
      this.#sinceUs = nowUs;
      this.#fewerSinceUs = nowUs;
      this.#fewer = 0;
    }
    this.#countedUs = Math.max(this.#countedUs, sentUs);
    if (nowUs - this.#sinceUs >= KNOWN_AFTER_US) this.#isKnown = true;
    this.#fewer = Math.max(this.#fewer, place.count);
    const mayFall = nowUs - this.#fewerSinceUs >= GONE_AFTER_US;
    if (place.count < this.#count && !mayFall) return;
    this.#count = place.count < this.#count ? this.#fewer : place.count;
    this.#index = place.index;
    this.#fewerSinceUs = nowUs;
    this.#fewer = 0;
  }
}
