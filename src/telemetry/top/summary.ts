// The top keys of some parts of time, and of several workers, as intervals: what a key came to lies between `least` and `most`.
// Sums of intervals are right whatever the sketches they come from have lost.

import type { Part } from "./parts.ts";
import { type Between, TallySum } from "./tally.ts";
import { type KeyText, QUIET_US, type RuleLabels, type TrackedKey } from "./tracked-keys.ts";

/** What keys are ranked by. */
export const TOP_ORDERS = ["refused", "asked"] as const;
export type TopOrder = (typeof TOP_ORDERS)[number];

/** What a key is ranked by. */
interface Counts {
  readonly asked: Between;
  readonly refused: Between;
}

/** One key. Text is one-byte. */
export interface TopRow extends RuleLabels, Counts {
  readonly text: KeyText;
  /** When its refusals began and the last one; null if there was none. */
  readonly refusedSinceUs: number | null;
  readonly lastRefusedUs: number | null;
}

/** Keys of a window and what is known of all others. Plain data, for other processes too. */
export interface TopSummary {
  readonly fromUs: number;
  /** In no order. */
  readonly rows: readonly TopRow[];
  /** What a key that has no row came to at most. */
  readonly restAsked: number;
  readonly restRefused: number;
}

/** The top `keysMax` keys of the parts by each order. */
export function summaryOf(parts: readonly Part[], fromUs: number, keysMax: number): TopSummary {
  const passed = new TallySum<TrackedKey>();
  const refused = new TallySum<TrackedKey>();
  for (const part of parts) {
    passed.add(part.passed);
    refused.add(part.refused);
  }
  const all = [...new Set([...passed.keys, ...refused.keys])].map((key) => countsOf(key, passed, refused));
  const shown = new Set(TOP_ORDERS.flatMap((by) => firstOf(all, by, keysMax)));
  const others = all.filter((counts) => !shown.has(counts));
  return {
    fromUs,
    rows: [...shown].map(rowOf),
    restAsked: others.reduce((most, { asked }) => Math.max(most, asked.most), passed.rest + refused.rest),
    restRefused: others.reduce((most, each) => Math.max(most, each.refused.most), refused.rest),
  };
}

/** All keys of all summaries. One that is missing in one of them came to its rest at most there. */
export function mergeSummaries(summaries: readonly TopSummary[]): TopSummary {
  const found = new Map<string, Found[]>();
  for (const summary of summaries) {
    for (const row of summary.rows) {
      const same = found.get(row.text.key);
      if (same === undefined) found.set(row.text.key, [{ row, summary }]);
      else same.push({ row, summary });
    }
  }
  const restAsked = sumOf(summaries, (each) => each.restAsked);
  const restRefused = sumOf(summaries, (each) => each.restRefused);
  return {
    fromUs: summaries.reduce((fromUs, each) => Math.max(fromUs, each.fromUs), 0),
    rows: [...found.values()].map((same) => merged(same, restAsked, restRefused)),
    restAsked,
    restRefused,
  };
}

/**
 * The first `keysMax` of them. What is certain counts first: a key that came once in the slot of others may have come as often as
 * they did, and mostly has not.
 */
export function firstOf<T extends Counts>(rows: readonly T[], by: TopOrder, keysMax: number): readonly T[] {
  return rows
    .filter((row) => row[by].least > 0)
    .sort((one, other) => other[by].least - one[by].least || other[by].most - one[by].most)
    .slice(0, keysMax);
}

interface Found {
  readonly row: TopRow;
  readonly summary: TopSummary;
}

function merged(same: readonly Found[], restAsked: number, restRefused: number): TopRow {
  const [{ row }] = same as readonly [Found];
  return {
    ...row,
    asked: {
      least: sumOf(same, (each) => each.row.asked.least),
      most: restAsked + sumOf(same, (each) => each.row.asked.most - each.summary.restAsked),
    },
    refused: {
      least: sumOf(same, (each) => each.row.refused.least),
      most: restRefused + sumOf(same, (each) => each.row.refused.most - each.summary.restRefused),
    },
    ...spanOf(same.map((each) => each.row)),
  };
}

interface KeyCounts extends Counts {
  readonly key: TrackedKey;
}

function countsOf(key: TrackedKey, passed: TallySum<TrackedKey>, refused: TallySum<TrackedKey>): KeyCounts {
  const passes = passed.of(key);
  const refusals = refused.of(key);
  const asked = { least: passes.least + refusals.least, most: passes.most + refusals.most };
  return { key, asked, refused: refusals };
}

function rowOf({ key, asked, refused }: KeyCounts): TopRow {
  const wasRefused = key.lastRefusedUs > 0;
  return {
    ...key.labels,
    text: key.text,
    asked,
    refused,
    refusedSinceUs: wasRefused ? key.refusedSinceUs : null,
    lastRefusedUs: wasRefused ? key.lastRefusedUs : null,
  };
}

/** Refusals of one key in several processes are one stretch if no whole minute lies between them. */
function spanOf(rows: readonly TopRow[]): Pick<TopRow, "refusedSinceUs" | "lastRefusedUs"> {
  let span: { since: number; last: number } | undefined;
  const spans = rows.flatMap(({ refusedSinceUs: since, lastRefusedUs: last }) =>
    since === null || last === null ? [] : [{ since, last }],
  );
  for (const { since, last } of spans.sort((one, other) => one.since - other.since)) {
    if (span === undefined || since - span.last > QUIET_US) span = { since, last };
    else span.last = Math.max(span.last, last);
  }
  return { refusedSinceUs: span?.since ?? null, lastRefusedUs: span?.last ?? null };
}

function sumOf<T>(items: readonly T[], read: (item: T) => number): number {
  return items.reduce((sum, item) => sum + read(item), 0);
}
