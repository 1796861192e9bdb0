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
  readonly relayed: number;
  readonly same: number;
  readonly different: number;
  readonly notCompared: Readonly<Record<string, number>>;
  readonly notAnswered: ReadonlyMap<string, number>;
  readonly differencesByField: Readonly<Record<string, number>>;
  readonly rules: readonly RuleCount[];
  readonly comparisons: number;
  readonly heldBytes: number;
  readonly recorded: number;
  readonly notRecorded: number;
  readonly latency: Readonly<Record<"answering" | "compared", LatencyHistogram>>;
}

/** The mirror's metrics in Prometheus's text format, without those of the process. */
export function mirrorText(numbers: MirrorNumbers): string {
  const { same, different, rules, latency } = numbers;
  const ofRules = rules.map(
    ({ domain, keys, answering_limit: limit, calls }): Sample => [calls, { domain, keys, limit }],
  );
  return [
    metricText(counter("calls_total", "Calls passed on to the answering target."), numbers.relayed),
    metricText(
      counter("compared_total", "Calls whose two answers were compared."),
      byLabel("result", Object.entries({ same, different })),
    ),
    metricText(
      counter("not_compared_total", "Calls that were not compared, and why."),
      byLabel("reason", Object.entries(numbers.notCompared)),
    ),
    metricText(
      counter("not_answered_total", "Calls that the answering target did not answer, and why."),
      byLabel("reason", numbers.notAnswered),
    ),
    metricText(
      counter("differences_total", "Calls in which a field differed."),
      byLabel("field", Object.entries(numbers.differencesByField)),
    ),
    metricText(counter("rule_differences_total", "Differing calls by rule."), ofRules),
    metricText(counter("recorded_total", "Calls written to the recording."), numbers.recorded),
    metricText(counter("not_recorded_total", "Calls that the recording had no room for."), numbers.notRecorded),
    metricText(named("comparisons", "gauge", "Calls under comparison."), numbers.comparisons),
    metricText(named("held_bytes", "gauge", "Bytes that calls under comparison hold."), numbers.heldBytes),
    latencyText(
      named("target_seconds", "histogram", "Time from sending a call to a target to its whole answer."),
      Object.entries(latency).map(([target, histogram]) => [histogram, { target }]),
    ),
  ].join("\n");
}

function counter(name: string, help: string): MetricHead {
  return named(name, "counter", help);
}

function named(name: string, kind: MetricHead["kind"], help: string): MetricHead {
  return { name: `headgate_mirror_${name}`, kind, help };
}
