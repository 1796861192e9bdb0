// The mirror's metrics; docs/mirror.md explains them. The service's own are in operate/telemetry/metrics.ts.

import { byLabel, latencyText, type MetricHead, metricText, type Sample } from "../../operate/telemetry/metric-text.ts";
import type { Differences } from "./differences.ts";
import type { Mirror } from "./mirror.ts";

const PREFIX = "headgate_mirror_";

/** The mirror's metrics in Prometheus's text format, without those of the process. */
export function mirrorText({ mirror, book }: { readonly mirror: Mirror; readonly book: Differences }): string {
  const { same, different, fields } = book;
  const ofRules = book
    .rules()
    .map(({ domain, keys, answering_limit: limit, calls }): Sample => [calls, { domain, keys, limit }]);
  const rows: readonly (readonly [MetricHead["kind"], name: string, help: string, number | Iterable<Sample>])[] = [
    ["counter", "calls_total", "Calls passed on to the answering target.", mirror.relayed],
    ["counter", "compared_total", "Calls whose two answers were compared.", by("result", { same, different })],
    ["counter", "not_compared_total", "Calls that were not compared, and why.", byLabel("reason", mirror.notCompared)],
    [
      "counter",
      "not_answered_total",
      "Calls that the answering target did not answer, and why.",
      byLabel("reason", mirror.answeringFailures),
    ],
    ["counter", "differences_total", "Calls in which a field differed.", by("field", fields)],
    ["counter", "rule_differences_total", "Differing calls by rule.", ofRules],
    ["counter", "recorded_total", "Calls written to the recording.", mirror.recorder?.calls ?? 0],
    ["counter", "not_recorded_total", "Calls that the recording had no room for.", mirror.recorder?.leftOut ?? 0],
    ["gauge", "comparisons", "Calls under comparison.", mirror.comparisons],
    ["gauge", "held_bytes", "Bytes that calls under comparison hold.", mirror.heldBytes],
  ];
  const help = "Time from sending a call to a target to its whole answer.";
  const targets = { name: `${PREFIX}target_seconds`, kind: "histogram", help } as const;
  const texts = rows.map(([kind, name, help, values]) => metricText({ name: PREFIX + name, kind, help }, values));
  const times = latencyText(targets, [
    [mirror.answeringLatency, { target: "answering" }],
    [mirror.comparedLatency, { target: "compared" }],
  ]);
  return [...texts, times].join("\n");
}

function by(label: string, counts: Readonly<Record<string, number>>): Sample[] {
  return byLabel(label, Object.entries(counts));
}
