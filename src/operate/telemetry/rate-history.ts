// The last fifteen minutes of calls, of the busiest limits, and of how long decisions and the store took: a page that is opened in the
// middle of an incident shows how it began. Every five seconds counters are compared with those of the last look, so calls cost nothing
// more. Bounded: 1.4 KB for each limit that is kept, and 8 bytes for each that is looked at.

import type { LongWork } from "../../engine/base/long-work.ts";
import { isoTime, MICROS_PER_SECOND } from "../../engine/base/units.ts";
import type { Limit } from "../../engine/domain/limit.ts";
import { textOf } from "../../engine/domain/request.ts";
import type { LimitStats, RuleCount } from "../../engine/domain/stats.ts";
import { limitsOnBucket } from "../../engine/rules/priority.ts";
import type { RuleSet } from "../../engine/rules/rule-set.ts";
import { CALLS } from "./deployment.ts";
import { LATENCY_BOUNDS_US } from "./latency-histogram.ts";
import type { CallCounts, StoreCounts } from "./observers.ts";

/** Samples that are kept: fifteen minutes, one every five seconds. */
const SAMPLES = 180;
const SAMPLE_US = 5 * MICROS_PER_SECOND;
/** Limits whose samples are kept, and those of them that are shown: the busiest. */
const KEPT_MAX = 500;
const SHOWN_MAX = 200;
/** Further limits of a rule set are left out. */
const LOOKED_AT_MAX = 100_000;
/** Limits that are looked at in one step. */
const LIMITS_PER_STEP = 100;
/** What a limit counted in one sample is forgotten by so much in the next, when limits are compared. */
const FORGOTTEN_PART = 1 / 8;

const TIMES = ["decision_p50", "decision_p99", "store_p50", "store_p99"] as const;

interface HistorySources {
  readonly calls: CallCounts;
  /** Counts of CALLS, of all processes that share the store. */
  readonly totals: () => readonly number[];
  readonly storeCounts: StoreCounts;
  readonly countOf: (stats: LimitStats) => RuleCount;
}

type Count = Pick<RuleCount, "hits" | "refused">;

/** A limit and what it counted: `samples` has its hits, then its refusals. */
interface Kept extends Count {
  readonly id: string;
  readonly samples: Float32Array;
  readonly busy: number;
}

interface Found extends Count {
  readonly limit: Limit;
  readonly now: Count;
}

/** The JSON of GET /history. Lists begin with the oldest sample; null: not known. */
export type HistoryView = NonNullable<ReturnType<RateHistory["view"]>>;

/** Takes samples when called. */
export class RateHistory {
  readonly #sources: HistorySources;
  readonly #seconds = new Float32Array(SAMPLES);
  readonly #calls = CALLS.map(() => new Float32Array(SAMPLES));
  readonly #timesUs = TIMES.map(() => new Float32Array(SAMPLES));
  readonly #kept = new Map<LimitStats, Kept>();
  /** How many samples were taken. */
  #taken = 0;
  /** When counters were looked at last; 0 before the first time. */
  #lookedUs = 0;
  #lastCalls: readonly number[] = [];
  #lastTimes: readonly (readonly number[])[] = [];
  #rules: RuleSet | undefined;
  /** Hits and refusals of each limit of #rules at the last look, without their upper bits. */
  #last = new Uint32Array(0);
  /** True once a limit had to be left out: what a limit did before it is kept is then not known. */
  #isFull = false;

  constructor(sources: HistorySources) {
    this.#sources = sources;
  }

  isDue(nowUs: number): boolean {
    return nowUs - this.#lookedUs >= SAMPLE_US;
  }

  /** Takes a sample of what was counted since the last look; the first look takes none. */
  *look(rules: RuleSet | undefined, nowUs: number): LongWork<void> {
    const slot = this.#taken % SAMPLES;
    const isFirst = this.#lookedUs === 0;
    this.#lookAtCalls(slot);
    this.#seconds[slot] = (nowUs - this.#lookedUs) / MICROS_PER_SECOND;
    this.#lookedUs = nowUs;
    if (!isFirst) this.#taken++;
    yield* this.#lookAtLimits(rules, slot);
  }

  #lookAtCalls(slot: number): void {
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
    this.#lastCalls = counts;
    this.#lastTimes = times;
  }

  *#lookAtLimits(rules: RuleSet | undefined, slot: number): LongWork<void> {
    const isNew = rules !== this.#rules;
    if (isNew) this.#dropAllBut(rules);
    this.#rules = rules;
    let found: Found[] = [];
    for (const [i, limit] of limitsOf(rules)) {
      if (i % LIMITS_PER_STEP === 0) yield;
      const now = this.#countOf(limit);
      const kept = this.#kept.get(limit.stats);
      if (kept !== undefined) this.#kept.set(limit.stats, sampled(kept, now, slot));
      else if (!isNew) {
        const hits = grownUint(now.hits, this.#last[2 * i]);
        const refused = grownUint(now.refused, this.#last[2 * i + 1]);
        if (hits + refused > 0) found.push({ limit, now, hits, refused });
        if (found.length === 2 * KEPT_MAX) found = this.#busiest(found);
      }
      this.#last[2 * i] = now.hits;
      this.#last[2 * i + 1] = now.refused;
    }
    this.#keep(this.#busiest(found), slot);
  }

  #countOf(limit: Limit): Count {
    const { countOf } = this.#sources;
    if (limit.priority === undefined) return countOf(limit.stats);
    const counts = limitsOnBucket(limit).map(({ stats }) => countOf(stats));
    const sum = (name: keyof Count) => counts.reduce((all, count) => all + count[name], 0);
    return { hits: sum("hits"), refused: sum("refused") };
  }

  #busiest(found: readonly Found[]): Found[] {
    if (found.length > KEPT_MAX) this.#isFull = true;
    return found.toSorted((one, other) => busyOf(other) - busyOf(one)).slice(0, KEPT_MAX);
  }

  #dropAllBut(rules: RuleSet | undefined): void {
    const dropped = new Set(this.#kept.keys());
    let count = 0;
    for (const [i, { stats }] of limitsOf(rules)) {
      dropped.delete(stats);
      count = i + 1;
    }
    for (const stats of dropped) this.#kept.delete(stats);
    this.#last = new Uint32Array(2 * count);
  }

  /** Keeps limits that are new here, the busiest first, as long as there is room or one that is less busy. */
  #keep(found: readonly Found[], slot: number): void {
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
      samples[slot] = one.hits;
      samples[SAMPLES + slot] = one.refused;
      const id = textOf(one.limit.names.id);
      this.#kept.set(one.limit.stats, { id, ...one.now, samples, busy: busyOf(one) });
    }
  }

  /** What is shown; undefined before the first sample. */
  view() {
    if (this.#taken === 0) return undefined;
    const shown = [...this.#kept.values()].toSorted((one, other) => other.busy - one.busy).slice(0, SHOWN_MAX);
    const listsOf = <Name extends string>(names: readonly Name[], samples: readonly Float32Array[]) =>
      Object.fromEntries(names.map((name, i) => [name, this.#list(samples[i])])) as Record<Name, (number | null)[]>;
    return {
      /** The end of the newest sample. */
      at: isoTime(this.#lookedUs),
      /** The length of each sample. */
      seconds: this.#list(this.#seconds).map((seconds) => Math.round((seconds ?? 0) * 1_000) / 1_000),
      /** Calls of all processes in each sample, by what became of them. */
      calls: listsOf(CALLS, this.#calls),
      /** This process's medians, and what 99 % stayed below; in microseconds. */
      times_us: listsOf(TIMES, this.#timesUs),
      /** This process's hits and refusals in each sample, by the limit's id. */
      limits: Object.fromEntries(
        shown.map(({ id, samples }) => [
          id,
          { hits: this.#list(samples), refused: this.#list(samples.subarray(SAMPLES)) },
        ]),
      ),
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

/** With their places. */
function* limitsOf(rules: RuleSet | undefined): Generator<[number, Limit]> {
  let i = 0;
  for (const { limits } of rules?.domains.values() ?? []) {
    for (const limit of limits) if (i < LOOKED_AT_MAX) yield [i++, limit];
  }
}

function sampled({ id, samples, hits, refused, busy }: Kept, now: Count, slot: number): Kept {
  const grew = { hits: grown(now.hits, hits), refused: grown(now.refused, refused) };
  samples[slot] = grew.hits;
  samples[SAMPLES + slot] = grew.refused;
  return { id, samples, hits: now.hits, refused: now.refused, busy: busy * (1 - FORGOTTEN_PART) + busyOf(grew) };
}

function busyOf({ hits, refused }: Count): number {
  return hits + refused;
}

/** 0 if it is not known what a counter was before. */
function grown(now = 0, before = now): number {
  return Math.max(0, now - before);
}

/** As `grown`, of a number that has lost its upper bits. */
function grownUint(now: number, before = now): number {
  const more = (now - before) >>> 0;
  return more > 0x7fff_ffff ? 0 : more;
}

/** Between the bounds of the bucket that has it, in proportion; NaN without a duration. */
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
