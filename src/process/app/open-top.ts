// Connects the top keys with the limiter that feeds them and the pages that show them, for this process, all of its workers, or all that share
// its store.

import { isoTime } from "../../engine/base/units.ts";
import { textOf } from "../../engine/domain/request.ts";
import type { Sample } from "../../operate/telemetry/metric-text.ts";
import {
  firstOf,
  mergeSummaries,
  NO_SUMMARY,
  summaryOf,
  type TopSummary,
} from "../../operate/telemetry/top/summary.ts";
import { type ProcessTop, type TopQuestion, type TopView, topView } from "../../operate/telemetry/top/top-view.ts";
import type { AppParts } from "./app-parts.ts";
import { INSTANCE } from "./peers.ts";

/** Keys that each worker reports per key asked for: only longer lists show a key that many workers see rarely. */
const TOLD_PER_KEY = 10;

type TopParts = Pick<AppParts, "topKeys" | "clock" | "link">;

/** The top keys of this thread alone; none if TOP_KEYS is 0. */
export function ownTop({ topKeys, clock }: TopParts, { window, keys }: TopQuestion): TopSummary {
  if (topKeys === undefined) return NO_SUMMARY;
  const { parts, fromUs } = topKeys.partsOf(window, clock.nowUs());
  return summaryOf(parts, fromUs, keys);
}

/** The top keys of all workers that answer, and how many these are; undefined if this thread is the only one. */
export async function topOfWorkers(parts: TopParts, question: TopQuestion) {
  const tops = await parts.link?.ask({ about: "top", ...question, keys: question.keys * TOLD_PER_KEY });
  if (tops === undefined) return { top: ownTop(parts, question), workers: undefined };
  return { top: mergeSummaries([...tops.values()]), workers: tops.size };
}

/** The JSON of /top: of all processes that share the store or, with a scope, of this one, for a caller that adds them up. */
export async function readTop(parts: AppParts, question: TopQuestion): Promise<TopView | ProcessTop> {
  const { top, workers } = await topOfWorkers(parts, question);
  const nowUs = parts.clock.nowUs();
  if (question.scope === "process") return { instance: INSTANCE, at: isoTime(nowUs), summary: top };
  const reports = (await parts.peers.reports()) ?? [];
  const peers = reports.flatMap((report) => report.top ?? []);
  const all = peers.length === 0 ? top : mergeSummaries([top, ...peers.map((peer) => peer[question.window])]);
  return topView(question, all, nowUs, {
    ...(workers === undefined ? {} : { workers }),
    ...(peers.length === 0 ? {} : { processes: 1 + peers.length }),
  });
}

/** The `keysMax` (TOP_KEYS_METRICS) keys that this process refuses most, for the metrics; none if TOP_KEYS is 0. */
export async function topRefused(parts: TopParts, keysMax: number): Promise<readonly Sample[]> {
  if (keysMax === 0) return [];
  const { rows } = (await topOfWorkers(parts, { window: "minute", by: "refused", keys: keysMax })).top;
  return firstOf(rows, "refused", keysMax).map(({ domain, rule, text, refused }): Sample => {
    return [refused.most, { domain: textOf(domain), rule: textOf(rule), key: textOf(text.key) }];
  });
}
