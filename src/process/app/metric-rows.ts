// What a row of metrics-table.ts is, and functions that make rows and read values.

import type { Clock } from "../../engine/base/clock.ts";
import { MICROS_PER_SECOND } from "../../engine/base/units.ts";
import type { LimitCounts } from "../../operate/http/limit-pages.ts";
import type { LatencyHistogram } from "../../operate/telemetry/latency-histogram.ts";
import { byLabel, type Sample } from "../../operate/telemetry/metric-text.ts";
import type { MetricRow } from "../../operate/telemetry/metrics.ts";
import type { Aggregation } from "../../operate/telemetry/thread-numbers.ts";
import type { WorkerLink } from "../workers/worker-link.ts";
import type { AppParts } from "./app-parts.ts";

/**
 * What metrics are read from: the parts of the process, the keys that are refused most (TOP_KEYS_METRICS), which workers are asked for, and
 * the limits at run time, which are counted in turns; undefined where nobody looks at them.
 */
export type MetricSources = AppParts & {
  readonly refused: readonly Sample[];
  readonly limitCounts: LimitCounts | undefined;
};

/** A metric with its value in all threads; undefined or no samples: there is nothing to show. */
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

/** A counter that each thread keeps by itself; `own` reads this thread's. */
export function ownCounter(name: string, own: Read<Values>, labels?: readonly string[]) {
  return counter(name, ofAll({ name, kind: "counter", aggregation: "sum" }, own), labels);
}

/** A gauge that each thread keeps by itself; `aggregation` joins those of several threads. */
export function ownGauge(name: string, aggregation: Aggregation, own: Read<Values>, labels?: readonly string[]) {
  return gauge(name, ofAll({ name, kind: "gauge", aggregation }, own), labels);
}

function ofAll(row: Parameters<AppParts["numbers"]["share"]>[0], own: Read<Values>): Read<Values> {
  return (sources) => {
    const { numbers } = sources;
    const values = own(sources);
    if (values === undefined) return undefined;
    if (typeof values === "number") return numbers.share(row, values);
    return values.map(([value, labels = {}]): Sample => [numbers.share(row, value, JSON.stringify(labels)), labels]);
  };
}

/** A value for each worker; undefined if this thread is the only one. */
export function perWorker({ link, counts }: MetricSources, read: (worker: number, link: WorkerLink) => number): Values {
  return link && counts.rows.map((_, i): Sample => [read(i + 1, link), { worker: String(i + 1) }]);
}

export function secondsSince(atUs: number | undefined, clock: Clock): number | undefined {
  return atUs === undefined ? undefined : (clock.nowUs() - atUs) / MICROS_PER_SECOND;
}

/** Numbers by the value of one label; leaves out undefined ones. */
export function known(label: string, counts: Readonly<Record<string, number | undefined>>): Sample[] {
  const there = Object.entries(counts).filter((entry): entry is [string, number] => entry[1] !== undefined);
  return byLabel(label, there);
}

/** 1 for the state that it is in, 0 for the others. */
export function oneOf(states: readonly string[], current: string): Sample[] {
  return states.map((state): Sample => [Number(state === current), { state }]);
}
