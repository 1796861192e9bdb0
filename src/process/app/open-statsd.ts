// Opens the statsd exporter that the settings ask for.

import type { StatsdExporter } from "../../operate/telemetry/statsd.ts";
import type { AppParts } from "./app-parts.ts";
import type { Metric } from "./metric-rows.ts";
import { METRICS } from "./metrics-table.ts";

const { cacheEntries, cacheLookups, cacheHits, cacheMisses, cacheExpired, cacheEvicted } = METRICS;
const CACHE_GAUGES = [cacheEntries, cacheLookups, cacheHits, cacheMisses, cacheExpired, cacheEvicted];

export async function openStatsd(parts: AppParts): Promise<StatsdExporter | undefined> {
  const { settings, clock, calls, statsBook, localCache, rareLog: log } = parts;
  if (settings.disablesStats || !(settings.usesStatsd || settings.usesDogStatsd)) return undefined;
  const { StatsdExporter } = await import("../../operate/telemetry/statsd.ts");
  const numberOf = ({ read }: Metric) => Number(read({ ...parts, refused: [], limitCounts: undefined }));
  const reloads = () => ({ loads: numberOf(METRICS.configLoadSuccess), failures: numberOf(METRICS.configLoadError) });
  const gauges = () => CACHE_GAUGES.map((row) => [row.name.replaceAll("_", "."), numberOf(row)] as const);
  const sources = { calls, reloads, statsBook, log, clock };
  return new StatsdExporter(settings, { ...sources, gauges: localCache === undefined ? () => [] : gauges });
}
