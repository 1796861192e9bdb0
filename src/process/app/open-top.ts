// Connects the top keys with the limiter that feeds them and the pages that show them, for this process or all that
// share its store.

import { isoTime } from "../../base/units.ts";
import { textOf } from "../../engine/domain/request.ts";
import type { RuntimeLimitReport } from "../../engine/rules/explain-report.ts";
import type { Sample } from "../../operate/telemetry/metric-text.ts";
import {
  firstOf,
  mergeSummaries,
  NO_SUMMARY,
  summaryOf,
  type TopSummary,
} from "../../operate/telemetry/top/summary.ts";
import {
  type ProcessTop,
  type TopKey,
  type TopQuestion,
  type TopView,
  topView,
} from "../../operate/telemetry/top/top-view.ts";
import type { AppParts } from "./app-parts.ts";
import { limitReport } from "./explain-page.ts";
import { INSTANCE } from "./peers.ts";

type TopParts = Pick<AppParts, "topKeys" | "clock">;

/** The top keys of this process; none if TOP_KEYS is 0. */
export function ownTop({ topKeys, clock }: TopParts, { window, keys }: TopQuestion): TopSummary {
  if (topKeys === undefined) return NO_SUMMARY;
  const { parts, fromUs } = topKeys.partsOf(window, clock.nowUs());
  return summaryOf(parts, fromUs, keys);
}

type LimitedKey = TopKey & { readonly runtime_limit?: RuntimeLimitReport };

/**
 * The JSON of /top: of all processes that share the store or, with a scope, of this one, for a caller that adds them
 * up.
 */
export async function readTop(
  parts: AppParts,
  question: TopQuestion,
  showsWho: boolean,
): Promise<(TopView & { readonly keys: readonly LimitedKey[] }) | ProcessTop> {
  const top = ownTop(parts, question);
  const nowUs = parts.clock.nowUs();
  if (question.scope === "process") return { instance: INSTANCE, at: isoTime(nowUs), summary: top };
  const reports = (await parts.peers.reports()) ?? [];
  const peers = reports.flatMap((report) => report.top ?? []);
  const all = peers.length === 0 ? top : mergeSummaries([top, ...peers.map((peer) => peer[question.window])]);
  const view = topView(question, all, nowUs, peers.length === 0 ? {} : { processes: 1 + peers.length });
  return { ...view, keys: view.keys.map((key) => withLimit(key, parts, showsWho)) };
}

/** The key with what an operator has set for its caller. */
function withLimit(key: TopKey, { runtimeLimits }: AppParts, showsWho: boolean): LimitedKey {
  const { domain, descriptor } = key;
  if (descriptor === undefined) return key;
  const entries = descriptor.map(({ value_base64: valueBase64, ...entry }) => ({
    ...entry,
    ...(valueBase64 === undefined ? {} : { valueBase64 }),
  }));
  const set = runtimeLimits.source.of({ domain, entries });
  return set === undefined ? key : { ...key, runtime_limit: limitReport(set, showsWho) };
}

/** The `keysMax` (TOP_KEYS_METRICS) keys that this process refuses most, for the metrics; none if TOP_KEYS is 0. */
export function topRefused(parts: TopParts, keysMax: number): readonly Sample[] {
  if (keysMax === 0) return [];
  const { rows } = ownTop(parts, { window: "minute", by: "refused", keys: keysMax });
  return firstOf(rows, "refused", keysMax).map(({ domain, rule, text, refused }): Sample => {
    return [refused.most, { domain: textOf(domain), rule: textOf(rule), key: textOf(text.key) }];
  });
}
