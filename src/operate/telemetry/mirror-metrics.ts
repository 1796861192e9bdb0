// The mirror's metrics; docs/mirror.md explains them. The service's own are in metrics.ts.

import type { LatencyHistogram } from "./latency-histogram.ts";
import { byLabel, latencyText, type MetricHead, metricText, type Sample } from "./metric-text.ts";

/** Differing calls of one rule. */
interface RuleCount {
  readonly domain: string;
  readonly keys: string;
  readonly answering_limit: string;
  readonly calls: number;
}

/** What the mirror has counted. */
interface MirrorNumbers {
  readonly mirror: {
    readonly relayed: number;
    readonly notCompared: Readonly<Record<string, number>>;
    readonly answeringFailures: ReadonlyMap<string, number>;
    readonly comparisons: number;
    readonly heldBytes: number;
    readonly answeringLatency: LatencyHistogram;
    readonly comparedLatency: LatencyHistogram;
  };
  readonly book: {
    readonly same: number;
    readonly different: number;
    readonly fields: Readonly<Record<string, number>>;
    rules(): readonly RuleCount[];
  };
}

/** The mirror's metrics in Prometheus's text format, without those of the process. */
export function mirrorText(
  { mirror, book }: MirrorNumbers,
  recording: { readonly calls: number; readonly leftOut: number } = { calls: 0, leftOut: 0 },
): string {
  const { same, different, fields } = book;
  const ofRules = book
    .rules()
    .map(({ domain, keys, answering_limit: limit, calls }): Sample => [calls, { domain, keys, limit }]);
  return [
    metricText(counter("calls_total", "Calls passed on to the answering target."), mirror.relayed),
    metricText(
      counter("compared_total", "Calls whose two answers were compared."),
      byLabel("result", Object.entries({ same, different })),
    ),
    metricText(
      counter("not_compared_total", "Calls that were not compared, and why."),
      byLabel("reason", Object.entries(mirror.notCompared)),
    ),
    metricText(
      counter("not_answered_total", "Calls that the answering target did not answer, and why."),
      byLabel("reason", mirror.answeringFailures),
    ),
    metricText(
      counter("differences_total", "Calls in which a field differed."),
      byLabel("field", Object.entries(fields)),
    ),
    metricText(counter("rule_differences_total", "Differing calls by rule."), ofRules),
    metricText(counter("recorded_total", "Calls written to the recording."), recording.calls),
    metricText(counter("not_recorded_total", "Calls that the recording had no room for."), recording.leftOut),
    metricText(named("comparisons", "gauge", "Calls under comparison."), mirror.comparisons),
    metricText(named("held_bytes", "gauge", "Bytes that calls under comparison hold."), mirror.heldBytes),
    latencyText(named("target_seconds", "histogram", "Time from sending a call to a target to its whole answer."), [
      [mirror.answeringLatency, { target: "answering" }],
      [mirror.comparedLatency, { target: "compared" }],
    ]),
  ].join("\n");
}

function counter(name: string, help: string): MetricHead {
  return named(name, "counter", help);
}

function named(name: string, kind: MetricHead["kind"], help: string): MetricHead {
  return { name: `headgate_mirror_${name}`, kind, help };
}
