// What a row of metrics-table.ts is, and functions that make rows and read values.

import type { Clock } from "../../base/clock.ts";
import { MICROS_PER_SECOND } from "../../base/units.ts";
import type { LatencyHistogram } from "../../operate/telemetry/latency-histogram.ts";
import { byLabel, type Sample } from "../../operate/telemetry/metric-text.ts";
import type { MetricRow } from "../../operate/telemetry/metrics.ts";
import type { AppParts } from "./app-parts.ts";

/**
 * What metrics are read from: the parts of the process, the keys that are refused most (TOP_KEYS_METRICS), and
 * the limits at run time, which are counted in turns; undefined where nobody looks at them.
 */
export type MetricSources = AppParts & {
  readonly refused: readonly Sample[];
  readonly limitCounts: Awaited<ReturnType<AppParts["runtimeLimits"]["source"]["counts"]>> | undefined;
};

/** A metric with its value; undefined or no samples: there is nothing to show. */
type Read<Value> = (sources: MetricSources) => Value;
type Values = number | undefined | readonly Sample[];
type Latencies = readonly (readonly [LatencyHistogram, Readonly<Record<string, string>>])[];
export type Metric =
  | (MetricRow & { readonly kind: "counter" | "gauge"; readonly read: Read<Values> })
  | (MetricRow & { readonly kind: "histogram"; readonly read: Read<Latencies> });

function rowOf<const Kind extends Metric["kind"], Value>(kind: Kind) {
  return (name: string, read: Read<Value>, labels: readonly string[] = []) => ({
    means: (help: string) => ({ name, kind, labels, help, read }),
  });
}
/** Rows of the three kinds, to be completed by `means`, which takes the help. */
export const counter = rowOf<"counter", Values>("counter");
export const gauge = rowOf<"gauge", Values>("gauge");
export const histogram = rowOf<"histogram", Latencies>("histogram");

export function secondsSince(atUs: number | undefined, clock: Clock): number | undefined {
  return atUs === undefined ? undefined : (clock.nowUs() - atUs) / MICROS_PER_SECOND;
}

/** Numbers by the value of one label; leaves out undefined ones. */
export function known(label: string, counts: Readonly<Record<string, number | undefined>>): Sample[] {
  const there = Object.entries(counts).filter((entry): entry is [string, number] => entry[1] !== undefined);
  return byLabel(label, there);
}

/** 1 for the state that it is in, 0 for the others. */
export function inState(states: readonly string[], current: string): Sample[] {
  return states.map((state): Sample => [Number(state === current), { state }]);
}
