// The top keys of parts of time and of processes, as intervals: a key's count lies between `least` and `most`. A sum of
// intervals holds whatever the sketches have lost.

import { getOrInsert } from "../../../base/get-or-insert.ts";
import type { RuleLabels } from "../stats-book.ts";
import type { Part } from "./parts.ts";
import { type Between, Tally } from "./tally.ts";
import { type KeyText, QUIET_US, type TrackedKey } from "./tracked-keys.ts";

/** The counts that keys can be ranked by. */
export const TOP_ORDERS = ["refused", "asked"] as const;
export type TopOrder = (typeof TOP_ORDERS)[number];

/** A key's counts. */
interface Counts {
  readonly asked: Between;
  readonly refused: Between;
}

/** A key with its counts. Text is one-byte. */
export interface TopRow extends RuleLabels, Counts {
  readonly text: KeyText;
  /**
   * Start of the present stretch of refusals, and the last refusal; null if there wasn't one. Microseconds since the
   * epoch.
   */
  readonly refusedSinceUs: number | null;
  readonly lastRefusedUs: number | null;
  /** At least its refusals in each part of the window, the newest last; absent in reports of older versions. */
  readonly trend?: readonly number[] | undefined;
}

/** Keys of a window, and a bound for all others. Plain data, so that it can be sent to other processes. */
export interface TopSummary {
  readonly fromUs: number;
  /** In no particular order. */
  readonly rows: readonly TopRow[];
  /** The most that a key without a row can have. */
  readonly restAsked: number;
  readonly restRefused: number;
  /** All takes that asked, and those that were refused, of whatever key. Exact. */
  readonly asked: number;
  readonly refused: number;
}

/** Of a process that counts nothing. */
export const NO_SUMMARY: TopSummary = { fromUs: 0, rows: [], restAsked: 0, restRefused: 0, asked: 0, refused: 0 };

/** The top `keysMax` keys of the parts, in each order. */
export function summaryOf(parts: readonly Part[], fromUs: number, keysMax: number): TopSummary {
  const passed = new Tally<TrackedKey>();
  const refused = new Tally<TrackedKey>();
  for (const part of parts) {
    passed.add(part.passed);
    refused.add(part.refused);
  }
  const rows = [...new Set([...passed.keys, ...refused.keys])].map((key) => countsOf(key, passed, refused));
  const first = topOf({ rows, restAsked: passed.rest + refused.rest, restRefused: refused.rest }, keysMax);
  return {
    ...first,
    fromUs,
    rows: first.rows.map((row) => rowOf(row, parts)),
    asked: passed.total + refused.total,
    refused: refused.total,
  };
}

/** The same with the top `keysMax` keys in each order; the others are in the rest. */
export function topOf<
  Row extends Counts,
  Ranked extends { rows: readonly Row[]; restAsked: number; restRefused: number },
>(ranked: Ranked & { rows: readonly Row[] }, keysMax: number): Ranked & { rows: readonly Row[] } {
  const shown = new Set(TOP_ORDERS.flatMap((by) => firstOf(ranked.rows, by, keysMax)));
  const others = ranked.rows.filter((row) => !shown.has(row));
  return {
    ...ranked,
    rows: [...shown],
    restAsked: others.reduce((most, { asked }) => Math.max(most, asked.most), ranked.restAsked),
    restRefused: others.reduce((most, { refused }) => Math.max(most, refused.most), ranked.restRefused),
  };
}

/** The keys of all summaries. A key that a summary lacks has at most that summary's rest there. */
export function mergeSummaries(summaries: readonly TopSummary[]): TopSummary {
  const found = new Map<string, Found[]>();
  for (const summary of summaries) {
    for (const row of summary.rows) getOrInsert(found, row.text.key, () => []).push({ row, summary });
  }
  const restAsked = sumOf(summaries, (each) => each.restAsked);
  const restRefused = sumOf(summaries, (each) => each.restRefused);
  return {
    fromUs: summaries.reduce((fromUs, each) => Math.max(fromUs, each.fromUs), 0),
    rows: [...found.values()].map((same) => merged(same, restAsked, restRefused)),
    restAsked,
    restRefused,
    asked: sumOf(summaries, (each) => each.asked),
    refused: sumOf(summaries, (each) => each.refused),
  };
}

/**
 * The first `keysMax` rows. `least` ranks before `most`: a key that took over a slot may have had the whole count of
 * that slot, but in
 * most cases it has not.
 */
export function firstOf<T extends Counts>(rows: readonly T[], by: TopOrder, keysMax: number): readonly T[] {
  return rows
    .filter((row) => row[by].least > 0)
    .sort((one, other) => other[by].least - one[by].least || other[by].most - one[by].most)
    .slice(0, keysMax);
}

type Found = { readonly row: TopRow; readonly summary: TopSummary };

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
    trend: same.map((each) => each.row.trend ?? []).reduce(sumOfTrends),
  };
}

/** Parts end at the same times everywhere, but a young process has fewer. */
function sumOfTrends(one: readonly number[], other: readonly number[]): readonly number[] {
  const [long, short] = one.length >= other.length ? [one, other] : [other, one];
  return long.map((count, i) => count + (short[i - long.length + short.length] ?? 0));
}

function countsOf(key: TrackedKey, passed: Tally<TrackedKey>, refused: Tally<TrackedKey>) {
  const passes = passed.of(key);
  const refusals = refused.of(key);
  const asked = { least: passes.least + refusals.least, most: passes.most + refusals.most };
  return { key, asked, refused: refusals };
}

function rowOf({ key, asked, refused }: ReturnType<typeof countsOf>, parts: readonly Part[]): TopRow {
  const wasRefused = key.lastRefusedUs > 0;
  return {
    ...key.labels,
    text: key.text,
    asked,
    refused,
    refusedSinceUs: wasRefused ? key.refusedSinceUs : null,
    lastRefusedUs: wasRefused ? key.lastRefusedUs : null,
    trend: parts.map((part) => part.refused.of(key).least),
  };
}

/** Refusals of one key in several processes are one stretch if the gap between them is at most QUIET_US. */
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
