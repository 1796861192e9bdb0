// What is handed out, for people: rows of /state, words of explain, and what is wrong.

import { isoTime } from "../base/units.ts";
import { textOf } from "../engine/domain/request.ts";
import { HELD_PART } from "../engine/rules/hand-out.ts";
import type { Finding } from "../operate/condition.ts";
import { perMinuteOf } from "./bank.ts";
import { type HandedBucket, SILENT_US } from "./handed-bucket.ts";
import type { QuotaBook, QuotaCounts } from "./quota-book.ts";
import type { UnknownBucket } from "./unknown-buckets.ts";

/** Rows of /state, and lines of one finding. */
const ROWS_MAX = 100;
const LINES_MAX = 20;

/** One bucket. */
interface HandedOutRow {
  /** The limit: domain, path of its rule, name. */
  readonly limit: string;
  /** The bucket's key in the store, as in top keys. */
  readonly bucket: string;
  /** Envoys that hold a part. */
  readonly envoys: number;
  /** Envoys that are denied, because the burst has no token for them. */
  readonly left_out: number;
  /** Envoys that have stopped to report, or whose stream has ended: what they have stays paid until it expires. */
  readonly silent: number;
  /** What they have, and the limit, in requests a second. */
  readonly per_second: number;
  readonly limit_per_second: number;
  /** Whole tokens that they hold, of at most an eighth of the burst. */
  readonly tokens: number;
  readonly tokens_max: number;
  /** False while the store does not answer. */
  readonly is_paid: boolean;
}

export function rowOf(bucket: HandedBucket, nowUs: number): HandedOutRow {
  const { limit } = bucket.bank.terms;
  let envoys = 0;
  let leftOut = 0;
  let silent = 0;
  for (const part of bucket.parts) {
    if (part.isOrphan || nowUs - part.reportedUs > SILENT_US) silent++;
    else if (part.isLeftOut) leftOut++;
    else if (part.rate > 0) envoys++;
  }
  return {
    limit: textOf(limit.names.id),
    bucket: textOf(bucket.bank.key),
    envoys,
    left_out: leftOut,
    silent,
    per_second: perSecond(bucket.bank.heldRate),
    limit_per_second: perSecond(perMinuteOf(limit)),
    tokens: bucket.heldTokens,
    tokens_max: bucket.bank.tokensMax,
    is_paid: !bucket.bank.isAway,
  };
}

/** The largest rows first. */
export function rowsOf(book: QuotaBook, nowUs: number): readonly HandedOutRow[] {
  const rows = [...book.buckets.values()].map((bucket) => rowOf(bucket, nowUs));
  return rows.sort((a, b) => b.per_second - a.per_second).slice(0, ROWS_MAX);
}

/** `3 Envoys have 160 of 200/s`. */
export function wordsOf({ envoys, left_out, per_second, limit_per_second }: HandedOutRow): string {
  const have = `${envoys} ${envoys === 1 ? "Envoy has" : "Envoys have"} ${per_second} of ${limit_per_second}/s`;
  return left_out === 0 ? have : `${have}, ${left_out} ${left_out === 1 ? "is" : "are"} denied for lack of burst`;
}

function perSecond(perMinute: number): number {
  return Math.round(perMinute / 6) / 10;
}

/** What is wrong with quota. */
export function quotaFindings(
  book: QuotaBook,
  unknown: readonly UnknownBucket[],
  tooMany: number,
  nowUs: number,
): readonly Finding[] {
  const rows = [...book.buckets.values()].map((bucket) => ({ bucket, row: rowOf(bucket, nowUs) }));
  const tight = rows.filter(({ row }) => row.left_out > 0);
  const silent = rows.filter(({ row }) => row.silent > 0);
  return [
    ...finding(
      "quota unknown",
      "Envoys ask for buckets that no rule hands out; their requests are denied.",
      "Give the rule `hand_out`, or correct `bucket_id_builder` in Envoy.",
      unknown.map(({ domain, keys, why }) => `domain ${domain}, keys ${keys.join(", ") || "(none)"}: ${why}`),
    ),
    ...finding(
      "quota too small",
      "Limits are too small for the Envoys that share them; the others are denied.",
      `Raise \`burst\` to ${HELD_PART} for each Envoy, or let Envoy ask for these limits.`,
      tight.map(({ bucket, row }) => tightLine(bucket, row)),
    ),
    ...finding(
      "quota silent",
      "Envoys have stopped to report. What they have stays paid until it expires.",
      "Check whether they run and reach this process.",
      silent.map(({ row }) => `${row.limit}: ${row.silent} ${row.silent === 1 ? "Envoy" : "Envoys"}`),
    ),
    ...finding(
      "quota too many",
      "Envoys report more buckets than Headgate hands out; requests of the others are denied.",
      "Use bucket ids with fewer values, or let Envoy ask for these limits.",
      tooMany === 0 ? [] : [`${tooMany} buckets in reports of the last minute`],
    ),
  ];
}

function tightLine({ bank, parts }: HandedBucket, { limit, left_out }: HandedOutRow): string {
  const { burst } = bank.terms.limit;
  return `${limit}: a burst of ${burst} suffices for ${Math.floor(burst / HELD_PART)} of ${parts.size} Envoys, ${left_out} denied; ${parts.size * HELD_PART} would do`;
}

function finding(id: string, says: string, advice: string, details: readonly string[]): readonly Finding[] {
  if (details.length === 0) return [];
  const lines = details.slice(0, LINES_MAX);
  if (details.length > LINES_MAX) lines.push(`and ${details.length - LINES_MAX} more`);
  return [{ id, severity: "warning", says, advice, see: "quota-handed-to-envoy", details: lines }];
}

/** Part of GET /state. */
export function quotaState(book: QuotaBook, counts: QuotaCounts, unknown: readonly UnknownBucket[], nowUs: number) {
  return {
    streams: book.streams.size,
    parts: book.partCount,
    buckets: rowsOf(book, nowUs),
    unknown: unknown.map(({ domain, keys, why, seenUs }) => ({ domain, keys, why, seen_at: isoTime(seenUs) })),
    counts,
  };
}
