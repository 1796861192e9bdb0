// POST /buckets/peek and /buckets/reset: an operator reads the state of buckets, or resets them. Reads the question,
// writes the answer, and reports who did what. engine/limiter/bucket-admin.ts does the work.

import { ALGORITHM_NAMES, SYNC_NAMES } from "../../engine/domain/limit.ts";
import { base64Unless, textOf } from "../../engine/domain/request.ts";
import type { BucketAdmin, BucketReport, BucketSnapshot, ResetReport } from "../../engine/limiter/bucket-admin.ts";
import type { Caller } from "./access.ts";
import type { AdminWatch } from "./admin-watch.ts";
import { type HttpAnswer, json } from "./page-server.ts";
import { readBucketQuestion } from "./read-questions.ts";

/** Peeks at buckets and resets them. Each may reject with RequestError or StoreError. */
export type BucketSource = Pick<BucketAdmin, "peek" | "reset">;

interface BucketPageOptions {
  readonly buckets: BucketSource;
  readonly watch: AdminWatch;
}

/** Answers one of the two pages. Rejects with RequestError or StoreError. */
export async function answerBuckets(
  action: "peek" | "reset",
  body: Buffer,
  caller: Caller,
  { buckets, watch }: BucketPageOptions,
): Promise<HttpAnswer> {
  const asked = readBucketQuestion(body);
  const shown =
    action === "peek" ? (await buckets.peek(asked)).map(peekView) : (await buckets.reset(asked)).map(resetView);
  watch.audited(action, caller, asked.domain, shown.map(auditView));
  return json(200, { domain: asked.domain, says: sayFound(shown.length, action), buckets: shown });
}

/** The JSON of a bucket; of one that was reset with its state before and after. */
export type BucketView = ReturnType<typeof peekView> | ReturnType<typeof resetView>;
/** The JSON of a state. */
export type SnapshotView = ReturnType<typeof snapshotView>;

function peekView(report: BucketReport) {
  return { ...identityView(report), ...snapshotView(report.snapshot) };
}

function resetView(report: ResetReport) {
  return { ...identityView(report), before: snapshotView(report.before), after: snapshotView(report.snapshot) };
}

function identityView({ descriptor, limit, bucketKey }: BucketReport) {
  const base64 = base64Unless(bucketKey);
  return {
    descriptor: descriptor ?? "global_limit",
    rule: textOf(limit.names.id),
    path: textOf(limit.names.path),
    name: textOf(limit.names.readableName),
    algorithm: limit.isCounter ? "counter" : ALGORITHM_NAMES[limit.algorithm],
    amount: limit.amount,
    burst: limit.burst,
    window_seconds: limit.windowSeconds,
    ...(limit.calendar === undefined ? {} : { calendar: limit.calendar.words }),
    sync: SYNC_NAMES[limit.policy.sync],
    bucket: textOf(bucketKey),
    // Bytes that are not UTF-8, which `bucket` can't show.
    ...(base64 === undefined ? {} : { bucket_base64: base64 }),
  };
}

function snapshotView({ remaining, waitSeconds, resetSeconds, liveHolds }: BucketSnapshot) {
  const holds = liveHolds === undefined ? {} : { live_holds: liveHolds };
  return { remaining, wait_seconds: waitSeconds, reset_seconds: resetSeconds, ...holds };
}

function auditView(view: BucketView): object {
  const { rule, bucket, bucket_base64: base64 } = view;
  const named = { rule, bucket, ...(base64 === undefined ? {} : { bucket_base64: base64 }) };
  if ("before" in view) return { ...named, before: view.before, after: view.after };
  return { ...named, remaining: view.remaining };
}

function sayFound(count: number, action: "peek" | "reset"): string {
  if (count === 0) return "no limit matches, so there is no bucket; /explain says why";
  const buckets = count === 1 ? "1 bucket" : `${count} buckets`;
  return action === "peek" ? `${buckets}; nothing was paid` : `${buckets} reset`;
}
