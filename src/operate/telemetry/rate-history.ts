// The last fifteen minutes, or the last hour, of calls, of the busiest limits, and of how long decisions and the store
// took: a page that is opened in the middle of an incident shows how it began. Bounded: 1.4 KB for each limit that is
// kept.

import { isoTime, MICROS_PER_SECOND } from "../../base/units.ts";
import type { Limit } from "../../engine/domain/limit.ts";
import { textOf } from "../../engine/domain/request.ts";
import type { LimitStats, RuleCount } from "../../engine/domain/stats.ts";
import { CALLS } from "./deployment.ts";
import { LATENCY_BOUNDS_US } from "./latency-histogram.ts";
import type { CallCounts, StoreCounts } from "./observers.ts";

/** Samples that are kept: with one for each look of limit-watch.ts, fifteen minutes in all. */
const SAMPLES = 180;
const LOOK_SECONDS = 5;
/** Limits whose samples are kept, and those of them that are shown: the busiest. */
const KEPT_MAX = 500;
const SHOWN_MAX = 200;
/** What a limit counted in one sample is forgotten by so much in the next, when limits are compared. */
const FORGOTTEN_PART = 1 / 8;

const TIMES = ["decision_p50", "decision_p99", "store_p50", "store_p99"] as const;

interface HistorySources {
  readonly calls: CallCounts;
  /** Counts of CALLS, of all processes that share the store. */
  readonly totals: () => readonly number[];
  readonly storeCounts: StoreCounts;
}

type Count = Pick<RuleCount, "hits" | "refused">;

/** `samples` has the limit's hits, then its refusals. */
interface Kept {
  readonly id: string;
  readonly samples: Float32Array;
  busy: number;
}

interface Found extends Count {
  readonly limit: Limit;
}

/** The JSON of GET /history. Lists begin with the oldest sample; null: not known. */
export type HistoryView = NonNullable<ReturnType<RateHistory["view"]>>;
export type CallsView = NonNullable<ReturnType<RateHistory["calls"]>>;

/** Takes samples when called. */
export class RateHistory {
  readonly #sources: HistorySources;
  /** Looks that make one sample. */
  readonly #looks: number;
  #looked = 0;
  readonly #seconds = new Float32Array(SAMPLES);
  readonly #calls = CALLS.map(() => new Float32Array(SAMPLES));
  readonly #timesUs = TIMES.map(() => new Float32Array(SAMPLES));
  readonly #kept = new Map<LimitStats, Kept>();
  /** How many samples were taken, and the place of the newest. */
  #taken = 0;
  #slot = 0;
  /** When counters were looked at last, and when the present sample began; 0 before the first time. */
  #lookedUs = 0;
  #beganUs = 0;
  /** What was counted when the present sample began. */
  #lastCalls: readonly number[] = [];
  #lastTimes: readonly (readonly number[])[] = [];
  /** Limits that are not kept and have counted something in this sample: the busiest. */
  #found: Found[] = [];
  /** True once a limit had to be left out: what a limit did before it is kept is then not known. */
  #isFull = false;

  constructor(sources: HistorySources, looks: number) {
    this.#sources = sources;
    this.#looks = looks;
  }

  /**
   * Begins a sample of what was counted since the last call, or adds to the one that is not full; the first call only
   * reads the counters. `inForce`: limits by their stats.
   */
  begin(inForce: ReadonlyMap<LimitStats, unknown>, nowUs: number): void {
    const isFirst = this.#lookedUs === 0;
    const begins = isFirst || this.#looked++ % this.#looks === 0;
    if (begins) {
      this.#slot = this.#taken % SAMPLES;
      if (!isFirst) this.#taken++;
      this.#beganUs = this.#lookedUs;
    }
    this.#lookAtCalls(this.#slot, isFirst || this.#looked % this.#looks === 0);
    this.#seconds[this.#slot] = (nowUs - this.#beganUs) / MICROS_PER_SECOND;
    this.#lookedUs = nowUs;
    for (const [stats, kept] of this.#kept) {
      if (!inForce.has(stats)) this.#kept.delete(stats);
      kept.busy *= 1 - FORGOTTEN_PART;
      if (begins) this.#clear(kept);
    }
  }

  /** Notes what a limit has counted. */
  note(limit: Limit, grown: Count): void {
    const kept = this.#kept.get(limit.stats);
    if (kept !== undefined) this.#add(kept, grown);
    else if (busyOf(grown) > 0) this.#found.push({ limit, hits: grown.hits, refused: grown.refused });
    if (this.#found.length === 2 * KEPT_MAX) this.#found = this.#busiest();
  }

  /** Ends the sample. */
  end(): void {
    this.#keep(this.#busiest());
    this.#found = [];
  }

  #clear({ samples }: Kept): void {
    samples[this.#slot] = 0;
    samples[SAMPLES + this.#slot] = 0;
  }

  #add(kept: Kept, grown: Count): void {
    const { samples } = kept;
    samples[this.#slot] = (samples[this.#slot] as number) + grown.hits;
    samples[SAMPLES + this.#slot] = (samples[SAMPLES + this.#slot] as number) + grown.refused;
    kept.busy += busyOf(grown);
  }

  /** `isEnd`: the next look begins a sample. */
  #lookAtCalls(slot: number, isEnd: boolean): void {
    const { calls, totals, storeCounts } = this.#sources;
    const counts = totals();
    for (const [i, samples] of this.#calls.entries()) samples[slot] = grown(counts[i], this.#lastCalls[i]);
    const times = [calls.responseTime.counts(), storeCounts.roundTrip.counts()];
    for (const [i, bounds] of times.entries()) {
      const counted = bounds.map((count, bound) => grown(count, this.#lastTimes[i]?.[bound]));
      const [median, slow] = this.#timesUs.slice(2 * i);
      if (median !== undefined) median[slot] = quantileUs(counted, 0.5);
      if (slow !== undefined) slow[slot] = quantileUs(counted, 0.99);
    }
    if (!isEnd) return;
    this.#lastCalls = counts;
    this.#lastTimes = times;
  }

  #busiest(): Found[] {
    if (this.#found.length > KEPT_MAX) this.#isFull = true;
    return this.#found.toSorted((one, other) => busyOf(other) - busyOf(one)).slice(0, KEPT_MAX);
  }

  /** Keeps limits that are new here, the busiest first, as long as there is room or one that is less busy. */
  #keep(found: readonly Found[]): void {
    const more = this.#kept.size + found.length - KEPT_MAX;
    if (more > 0) this.#isFull = true;
    const least = more <= 0 ? [] : [...this.#kept].sort(([, one], [, other]) => one.busy - other.busy);
    for (const one of found) {
      if (this.#kept.size >= KEPT_MAX) {
        const weakest = least.shift();
        if (weakest === undefined || weakest[1].busy >= busyOf(one)) return;
        this.#kept.delete(weakest[0]);
      }
      const samples = new Float32Array(2 * SAMPLES).fill(this.#isFull ? Number.NaN : 0);
      const kept = { id: textOf(one.limit.names.id), samples, busy: 0 };
      this.#clear(kept);
      this.#add(kept, one);
      this.#kept.set(one.limit.stats, kept);
    }
  }

  /** What is shown; undefined before the first sample. */
  view() {
    const calls = this.calls();
    if (calls === undefined) return undefined;
    const shown = [...this.#kept.values()].toSorted((one, other) => other.busy - one.busy).slice(0, SHOWN_MAX);
    return {
      ...calls,
      /** This process's hits and refusals in each sample, by the limit's id. */
      limits: Object.fromEntries(
        shown.map(({ id, samples }) => [
          id,
          { hits: this.#list(samples), refused: this.#list(samples.subarray(SAMPLES)) },
        ]),
      ),
    };
  }

  /** The same without limits. */
  calls() {
    if (this.#taken === 0) return undefined;
    const listsOf = <Name extends string>(names: readonly Name[], samples: readonly Float32Array[]) =>
      Object.fromEntries(names.map((name, i) => [name, this.#list(samples[i])])) as Record<Name, (number | null)[]>;
    return {
      /** The end of the newest sample. */
      at: isoTime(this.#lookedUs),
      /** The time that is kept once the process is old enough. */
      span_seconds: SAMPLES * LOOK_SECONDS * this.#looks,
      /** The length of each sample. */
      seconds: this.#list(this.#seconds).map((seconds) => Math.round((seconds ?? 0) * 1_000) / 1_000),
      /** Calls of all processes in each sample, by what became of them. */
      calls: listsOf(CALLS, this.#calls),
      /** This process's medians, and what 99 % stayed below; in microseconds. */
      times_us: listsOf(TIMES, this.#timesUs),
    };
  }

  #list(samples: Float32Array = new Float32Array(SAMPLES)): (number | null)[] {
    const length = Math.min(this.#taken, SAMPLES);
    return Array.from({ length }, (_, i) => {
      const value = samples[(this.#taken - length + i) % SAMPLES];
      return value === undefined || Number.isNaN(value) ? null : value;
    });
  }
}

function busyOf({ hits, refused }: Count): number {
  return hits + refused;
}

/** 0 if the earlier count is unknown. */
function grown(now = 0, before = now): number {
  return Math.max(0, now - before);
}

/** A quantile, interpolated within its bucket; NaN without a duration. */
function quantileUs(counted: readonly number[], part: number): number {
  const rank = part * counted.reduce((sum, count) => sum + count, 0);
  if (rank === 0) return Number.NaN;
  let below = 0;
  let bucket = 0;
  while (below + (counted[bucket] ?? 0) < rank) below += counted[bucket++] ?? 0;
  const from = LATENCY_BOUNDS_US[bucket - 1] ?? 0;
  const to = LATENCY_BOUNDS_US[bucket] ?? from;
  return Math.round(from + ((to - from) * (rank - below)) / (counted[bucket] ?? 1));
}
