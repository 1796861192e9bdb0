// The mirror's counts for Prometheus, by prom-client; read from plain numbers when somebody asks.
// docs/mirror.md explains the metrics. The service's own are in metrics.ts.

import { Counter, collectDefaultMetrics, Gauge, Registry } from "prom-client";
import { LATENCY_BOUNDS_US, type LatencyHistogram } from "./latency-histogram.ts";

/** Differing calls of one rule. */
interface RuleCount {
  readonly domain: string;
  readonly keys: string;
  readonly limit: string;
  readonly calls: number;
}

/** Where the numbers are; all are read at each scrape. */
interface MirrorMetricSources {
  relayed(): number;
  same(): number;
  different(): number;
  notCompared(): Readonly<Record<string, number>>;
  notAnswered(): ReadonlyMap<string, number>;
  differencesByField(): Readonly<Record<string, number>>;
  rules(): readonly RuleCount[];
  comparisons(): number;
  heldBytes(): number;
  recorded(): { readonly calls: number; readonly leftOut: number };
  readonly latency: Readonly<Record<"answering" | "compared", LatencyHistogram>>;
}

type Value = readonly [number, Readonly<Record<string, string>>?];

/** Exports the mirror's metrics and those of the process. */
export class MirrorExporter {
  readonly #registry = new Registry();
  readonly #sources: MirrorMetricSources;

  constructor(sources: MirrorMetricSources, withProcess = true) {
    this.#sources = sources;
    if (withProcess) collectDefaultMetrics({ register: this.#registry });
    this.#registerCounters(sources);
    this.#registerGauges(sources);
  }

  /** The Content-Type of `metricsText`. */
  get contentType(): string {
    return this.#registry.contentType;
  }

  /** All metrics in Prometheus's text format. */
  async metricsText(): Promise<string> {
    return `${await this.#registry.metrics()}${latencyText(this.#sources.latency)}`;
  }

  #registerCounters(sources: MirrorMetricSources): void {
    const counter = (name: string, help: string, labelNames: string[], read: () => Value[]) => {
      const metric: Counter = new Counter({
        name: `headgate_mirror_${name}`,
        help,
        labelNames,
        registers: [this.#registry],
        collect() {
          metric.reset();
          for (const [value, labels = {}] of read()) metric.inc(labels, value);
        },
      });
    };
    counter("calls_total", "Calls passed on to the answering target.", [], () => [[sources.relayed()]]);
    counter("compared_total", "Calls whose two answers were compared.", ["result"], () => [
      [sources.same(), { result: "same" }],
      [sources.different(), { result: "different" }],
    ]);
    counter("not_compared_total", "Calls that were not compared, and why.", ["reason"], () =>
      labelled(Object.entries(sources.notCompared()), "reason"),
    );
    counter("not_answered_total", "Calls that the answering target did not answer, and why.", ["reason"], () =>
      labelled(sources.notAnswered(), "reason"),
    );
    counter("differences_total", "Calls in which a field differed.", ["field"], () =>
      labelled(Object.entries(sources.differencesByField()), "field"),
    );
    counter("rule_differences_total", "Differing calls by rule.", ["domain", "keys", "limit"], () =>
      sources.rules().map(({ calls, ...labels }): Value => [calls, labels]),
    );
    counter("recorded_total", "Calls written to the recording.", [], () => [[sources.recorded().calls]]);
    counter("not_recorded_total", "Calls that the recording had no room for.", [], () => [
      [sources.recorded().leftOut],
    ]);
  }

  #registerGauges({ comparisons, heldBytes }: MirrorMetricSources): void {
    const gauge = (name: string, help: string, read: () => number) => {
      const metric: Gauge = new Gauge({
        name: `headgate_mirror_${name}`,
        help,
        registers: [this.#registry],
        collect: () => metric.set(read()),
      });
    };
    gauge("comparisons", "Calls under comparison.", comparisons);
    gauge("held_bytes", "Bytes that calls under comparison hold.", heldBytes);
  }
}

function labelled(counts: Iterable<readonly [string, number]>, label: string): Value[] {
  return [...counts].map(([name, count]): Value => [count, { [label]: name }]);
}

function latencyText(latency: MirrorMetricSources["latency"]): string {
  const name = "headgate_mirror_target_seconds";
  let text = `\n# HELP ${name} Time from sending a call to a target to its whole answer.\n# TYPE ${name} histogram\n`;
  for (const [target, { counts, sumUs }] of Object.entries(latency)) {
    let sum = 0;
    for (const [i, count] of counts.entries()) {
      sum += count;
      const boundUs = LATENCY_BOUNDS_US[i];
      text += `${name}_bucket{target="${target}",le="${boundUs === undefined ? "+Inf" : boundUs / 1_000_000}"} ${sum}\n`;
    }
    text += `${name}_sum{target="${target}"} ${sumUs / 1_000_000}\n${name}_count{target="${target}"} ${sum}\n`;
  }
  return text;
}
