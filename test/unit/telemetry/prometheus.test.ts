// What a scrape shows of what observers were told.

import { describe, expect, test } from "vitest";
import { StoreError } from "../../../src/engine/base/errors.ts";
import { OnStoreFailure } from "../../../src/engine/domain/limit.ts";
import { Source } from "../../../src/engine/domain/take.ts";
import { AdminCounts } from "../../../src/operate/telemetry/admin-counts.ts";
import { METRICS, RULE_METRICS } from "../../../src/operate/telemetry/metrics.ts";
import { CallCounts, StoreCounts } from "../../../src/operate/telemetry/observers.ts";
import { PrometheusExporter } from "../../../src/operate/telemetry/prometheus.ts";
import { RateLimitedLog } from "../../../src/operate/telemetry/rate-limited-log.ts";
import { LimitStatsBook } from "../../../src/operate/telemetry/stats-book.ts";
import { ManualClock } from "../../support/manual-clock.ts";

const NO_SINK = { info: () => undefined, warn: () => undefined, error: () => undefined };

function makeExporter() {
  const log = new RateLimitedLog(NO_SINK, new ManualClock());
  const sources = {
    calls: new CallCounts(log),
    store: new StoreCounts(log),
    admin: new AdminCounts(),
    reloads: () => ({ loads: 1, failures: 1, lastError: "a mistake" }),
    series: new LimitStatsBook(200),
    statsdErrors: () => 7,
    rules: () => ({ version: 3, hash: "abc", limits: 12, ageSeconds: 90 }),
    buckets: (): number | undefined => 42,
    localCache: { size: 3, lookups: 10, hits: 4, expired: 2, evicted: 1 },
    inFlight: () => 5,
    lane: () => ({ connections: 2, unaryCalls: 30, streams: 4 }),
    grpcTroubles: () => ({ ping_flood: 1 }),
    tls: () => ({ remainingSeconds: 3_600, lifetimeSeconds: 86_400, renewals: 2, refusals: 1, isRefused: true }),
    isReady: () => true,
    version: "0.1.0",
  };
  return { ...sources, exporter: new PrometheusExporter(sources, false) };
}

async function textOf(exporter: PrometheusExporter): Promise<string> {
  let text = "";
  for await (const piece of exporter.metricsText()) text += piece;
  return text;
}

/** The line of a metric with exactly these labels, in any order. */
function sampleOf(text: string, name: string, labels = ""): string | undefined {
  const sorted = (list: string) => list.split(",").sort().join(",");
  for (const line of text.split("\n")) {
    const match = /^(\w+)(?:\{(.*)\})? (\S+)$/.exec(line);
    if (match?.[1] === name && sorted(match[2] ?? "") === sorted(labels)) return match[3];
  }
  return undefined;
}

test("exports every metric of the table with its help and kind, once", async () => {
  const text = await textOf(makeExporter().exporter);
  for (const row of [...Object.values(METRICS), ...Object.values(RULE_METRICS)]) {
    expect(text.split(`# HELP ${row.name} ${row.help}\n`)).toHaveLength(2);
    expect(text.split(`# TYPE ${row.name} ${row.kind}\n`)).toHaveLength(2);
  }
});

test("every line is a comment or a sample", async () => {
  const { exporter, series } = makeExporter();
  series.statsOf("edge", ["tenant"], "");
  const lines = (await textOf(exporter)).split("\n").filter((line) => line !== "");
  expect(
    lines.filter((line) => !/^(?:# (?:HELP|TYPE) \w+ .+|\w+(?:\{(?:\w+="[^"]*",?)*\})? -?[\d.e+-]+)$/.test(line)),
  ).toEqual([]);
});

test("shows how long the certificate lasts, and what came of changed ones", async () => {
  const text = await textOf(makeExporter().exporter);
  expect(sampleOf(text, "headgate_tls_certificate_remaining_seconds")).toBe("3600");
  expect(sampleOf(text, "headgate_tls_certificate_lifetime_seconds")).toBe("86400");
  expect(sampleOf(text, "headgate_tls_changes_total", 'outcome="renewed"')).toBe("2");
  expect(sampleOf(text, "headgate_tls_changes_total", 'outcome="refused"')).toBe("1");
  expect(sampleOf(text, "headgate_tls_last_change_success")).toBe("0");
});

test("counts calls by outcome and source", async () => {
  const { calls, exporter } = makeExporter();
  calls.decided(false, Source.store, 40);
  calls.decided(true, Source.denialMemory, 12);
  calls.requestFailed("REQUEST_DOMAIN_EMPTY");
  const text = await textOf(exporter);
  expect(sampleOf(text, "headgate_decisions_total", 'outcome="allowed",source="store"')).toBe("1");
  expect(sampleOf(text, "headgate_decisions_total", 'outcome="refused",source="denial_memory"')).toBe("1");
  expect(sampleOf(text, "ratelimit_service_total_requests", 'grpc_method="ShouldRateLimit"')).toBe("3");
  expect(sampleOf(text, "ratelimit_service_should_rate_limit_error", 'err_type="service_error"')).toBe("1");
  expect(sampleOf(text, "headgate_request_errors_total", 'code="REQUEST_DOMAIN_EMPTY"')).toBe("1");
});

test("exports durations as a cumulative histogram in seconds", async () => {
  const { calls, exporter } = makeExporter();
  for (const us of [5, 40, 40, 9_000_000]) calls.decided(false, Source.store, us);
  const text = await textOf(exporter);
  const name = "ratelimit_service_response_time_seconds";
  const bucket = (le: string) => sampleOf(text, `${name}_bucket`, `grpc_method="ShouldRateLimit",le="${le}"`);
  expect([bucket("0.00001"), bucket("0.00005"), bucket("0.02"), bucket("+Inf")]).toEqual(["1", "3", "3", "4"]);
  expect(sampleOf(text, `${name}_count`, 'grpc_method="ShouldRateLimit"')).toBe("4");
  expect(sampleOf(text, `${name}_sum`, 'grpc_method="ShouldRateLimit"')).toBe("9.000085");
});

test("counts degraded answers by policy and reason, and failures without an answer as errors", async () => {
  const { calls, exporter } = makeExporter();
  const failure = new StoreError("STORE_TIMEOUT", "late");
  calls.degraded(OnStoreFailure.allow, failure);
  calls.degraded(OnStoreFailure.error, failure);
  const text = await textOf(exporter);
  expect(sampleOf(text, "headgate_degraded_total", 'policy="allow",reason="STORE_TIMEOUT"')).toBe("1");
  expect(sampleOf(text, "headgate_degraded_total", 'policy="deny",reason="STORE_TIMEOUT"')).toBe("0");
  expect(sampleOf(text, "ratelimit_service_should_rate_limit_error", 'err_type="redis_error"')).toBe("1");
});

test("shows the store's troubles and the breaker's state", async () => {
  const { store, exporter } = makeExporter();
  store.answered(300, 7);
  store.failed(new StoreError("STORE_TIMEOUT", "late"));
  store.repeated();
  store.redirected();
  store.damaged(2);
  store.evicted(3);
  store.loopLate(4);
  store.outcomeUnknown(5);
  store.gaveBack(6);
  store.keptPaid(4);
  store.breakerChanged("open");
  const text = await textOf(exporter);
  expect(sampleOf(text, "headgate_store_takes_total")).toBe("7");
  expect(sampleOf(text, "headgate_store_seconds_count")).toBe("1");
  expect(sampleOf(text, "headgate_store_failures_total", 'code="STORE_TIMEOUT"')).toBe("1");
  expect(sampleOf(text, "headgate_store_repeats_total")).toBe("1");
  expect(sampleOf(text, "headgate_store_redirections_total")).toBe("1");
  expect(sampleOf(text, "headgate_store_damaged_buckets_total")).toBe("2");
  expect(sampleOf(text, "headgate_store_evicted_buckets_total")).toBe("3");
  expect(sampleOf(text, "headgate_loop_late_total")).toBe("4");
  expect(sampleOf(text, "headgate_store_outcome_unknown_total")).toBe("5");
  expect(sampleOf(text, "headgate_store_not_given_back_total")).toBe("4");
  expect(sampleOf(text, "headgate_store_gave_back_total")).toBe("6");
  expect(sampleOf(text, "headgate_store_breaker_state", 'state="open"')).toBe("1");
  expect(sampleOf(text, "headgate_store_breaker_state", 'state="closed"')).toBe("0");
  expect(sampleOf(text, "headgate_store_breaker_changes_total", 'state="open"')).toBe("1");
});

test("shows the rules in force and how the last load went", async () => {
  const { exporter } = makeExporter();
  const text = await textOf(exporter);
  expect(sampleOf(text, "headgate_rules_info", 'hash="abc",version="3"')).toBe("1");
  expect(sampleOf(text, "headgate_rules_age_seconds")).toBe("90");
  expect(sampleOf(text, "headgate_rules_last_load_success")).toBe("0");
  expect(sampleOf(text, "ratelimit_service_config_load_success")).toBe("1");
  expect(sampleOf(text, "ratelimit_service_config_load_error")).toBe("1");
  expect(sampleOf(text, "headgate_buckets")).toBe("42");
  expect(sampleOf(text, "headgate_statsd_errors_total")).toBe("7");
});

test("has no sample for what is not known, rather than a zero", async () => {
  const sources = makeExporter();
  const exporter = new PrometheusExporter({ ...sources, rules: () => undefined, buckets: () => undefined }, false);
  const text = await textOf(exporter);
  expect(["headgate_buckets", "headgate_rules_age_seconds"].map((name) => sampleOf(text, name))).toEqual([
    undefined,
    undefined,
  ]);
});

describe("counters of rules", () => {
  test("are read when scraped, under the reference's names", async () => {
    const { series, exporter } = makeExporter();
    const stats = series.statsOf("edge", ["tenant"], "");
    stats.totalHits = 9;
    stats.overLimit = 2;
    stats.shadowMode = 1;
    const labels = 'domain="edge",key1="tenant",key2="",rule="tenant",limit=""';
    const text = await textOf(exporter);
    expect(sampleOf(text, "ratelimit_service_rate_limit_total_hits", labels)).toBe("9");
    expect(sampleOf(text, "ratelimit_service_rate_limit_over_limit", labels)).toBe("2");
    expect(sampleOf(text, "ratelimit_service_rate_limit_shadow_mode", labels)).toBe("1");
    stats.totalHits++;
    expect(sampleOf(await textOf(exporter), "ratelimit_service_rate_limit_total_hits", labels)).toBe("10");
  });

  test("of holds begin when there are some, and live ones show where they are in memory", async () => {
    const sources = makeExporter();
    const labels = 'domain="edge",key1="tenant",key2="",rule="tenant",limit=""';
    const stats = sources.series.statsOf("edge", ["tenant"], "");
    stats.totalHits = 9;
    const plain = await textOf(sources.exporter);
    expect(plain.split("\n").filter((line) => line.startsWith("headgate_hold_"))).toEqual([]);
    stats.holdsOpened = 3;
    stats.holdsLive = 2;
    const shared = new PrometheusExporter({ ...sources, buckets: () => undefined }, false);
    expect(sampleOf(await textOf(shared), "headgate_hold_opened_total", labels)).toBe("3");
    expect(sampleOf(await textOf(shared), "headgate_hold_live", labels)).toBeUndefined();
    expect(sampleOf(await textOf(sources.exporter), "headgate_hold_live", labels)).toBe("2");
    // A series that goes is taken for a process that has.
    stats.holdsLive = 0;
    expect(sampleOf(await textOf(sources.exporter), "headgate_hold_live", labels)).toBe("0");
  });
});

test("adds the process's own metrics when asked to", async () => {
  const text = await textOf(new PrometheusExporter(makeExporter()));
  expect(text).toContain("process_resident_memory_bytes");
});
