// What a scrape shows of what the parts of a process have counted.

import { afterAll, expect, test } from "vitest";
import { ServerCounts } from "../../../../packages/fast-lane/src/bounds.ts";
import { StoreError } from "../../../../src/base/errors.ts";
import { OnStoreFailure } from "../../../../src/engine/domain/limit.ts";
import { Source, TakeGroup } from "../../../../src/engine/domain/take.ts";
import { keep, keyText, valueText } from "../../../../src/engine/runtime/runtime-limit.ts";
import { createLogger } from "../../../../src/operate/telemetry/logger.ts";
import { RULE_METRICS } from "../../../../src/operate/telemetry/metrics.ts";
import { openNodeMetrics } from "../../../../src/operate/telemetry/node-metrics.ts";
import { type AppParts, buildAppParts } from "../../../../src/process/app/app-parts.ts";
import { METRICS } from "../../../../src/process/app/metrics-table.ts";
import { metricsText } from "../../../../src/process/app/process-metrics.ts";
import { readSettings } from "../../../../src/settings/settings.ts";
import { ManualClock } from "../../../support/manual-clock.ts";
import { rulesFromYaml } from "../../../support/rules.ts";

const built: AppParts[] = [];
afterAll(() => {
  for (const { running } of built) running.watches.forEach(clearInterval);
});

/** The parts of a process that has never listened. */
async function makeParts(more: Partial<AppParts> = {}): Promise<AppParts> {
  const clock = new ManualClock();
  const logger = createLogger({ level: "silent", format: "json", clock, secrets: [] });
  const parts = await buildAppParts({
    settings: readSettings({}),
    clock,
    logger,
    version: "0.1.0",
  });
  built.push(parts);
  return { ...parts, ...more };
}

async function textOf(parts: AppParts): Promise<string> {
  let text = "";
  for await (const piece of await metricsText(parts, () => Promise.resolve(""))) text += piece;
  return text;
}

/** The value of a series; undefined if there isn't one. */
function sampleOf(text: string, series: string): string | undefined {
  return text
    .split("\n")
    .find((line) => line.startsWith(`${series} `))
    ?.slice(series.length + 1);
}

test("exports every metric of the table with its help and kind, once, as comments and samples", async () => {
  const parts = await makeParts();
  parts.statsBook.statsOf("edge", ["tenant"], "").totalHits = 1;
  const text = await textOf(parts);
  for (const row of [...Object.values(METRICS), ...Object.values(RULE_METRICS)]) {
    expect(text.split(`# HELP ${row.name} ${row.help}\n`)).toHaveLength(2);
    expect(text.split(`# TYPE ${row.name} ${row.kind}\n`)).toHaveLength(2);
  }
  const line = /^(?:# (?:HELP|TYPE) \w+ .+|\w+(?:\{(?:\w+="[^"]*",?)*\})? -?[\d.e+-]+)$/;
  expect(text.split("\n").filter((each) => each !== "" && !line.test(each))).toEqual([]);
});

async function countedParts(): Promise<AppParts> {
  const clock = new ManualClock();
  const status = {
    loads: 1,
    failures: 1,
    lastError: { part: "files", atUs: 0, message: "", problems: [] },
    loadedAtUs: clock.nowUs(),
  };
  const current = rulesFromYaml("domain: edge\nglobal_limit: { requests_per_unit: 9, unit: day }", {
    version: 3,
    hash: "abc",
  });
  const counts = Object.assign(new ServerCounts(), { connections: 2, unaryCalls: 30, streams: 4 });
  counts.troubles.ping_flood = 1;
  const parts = await makeParts({
    reloader: { current, status: () => status } as unknown as AppParts["reloader"],
    localCache: { size: 3, lookups: 10, hits: 4, expired: 2, evicted: 1 } as AppParts["localCache"],
    running: {
      pages: [],
      grpc: {
        inFlight: () => 5,
        troubles: counts.troubles,
        counts,
      },
      statsd: { errors: 7 },
      tls: { status: () => ({ validFromUs: 0, validToUs: 86_400_000_000, renewals: 2, refusals: 1, refusal: "no" }) },
      traces: { counts: { sent: 8, failed: 1, dropped: 2 } },
    } as unknown as AppParts["running"],
  });
  const { calls, storeCounts: store } = parts;
  const value = valueText({ change: { kind: "block", shadow: false }, untilUs: 0, note: "", who: "" });
  const key = keyText({ domain: "edge", entries: [["tenant", "acme"]] });
  parts.runtimeLimits.limits.table.put(keep(key, value, 1_700_000_000_500_000));
  Object.assign(parts.runtimeLimits.sync ?? {}, { failures: 3 });
  const failure = new StoreError("STORE_TIMEOUT", "late");
  for (const us of [-5, 10, 40, 40, 9_000_000]) calls.decided(false, Source.store, us);
  calls.decided(true, Source.denialMemory, 12);
  calls.requestFailed("REQUEST_DOMAIN_EMPTY");
  calls.degraded(OnStoreFailure.allow, failure, new TakeGroup());
  calls.degraded(OnStoreFailure.error, failure, new TakeGroup());
  calls.domainNotFound('e"d\\g\ne', 2);
  store.answered(300, 7);
  store.failed(failure);
  store.repeated();
  store.redirected();
  store.damaged(2);
  store.evicted(3);
  store.loopLate(4);
  store.outcomeUnknown(5);
  store.gaveBack(6);
  store.keptPaid(4);
  store.breakerChanged("127.0.0.1:6379", "open");
  return parts;
}

const countedText = await textOf(await countedParts());

test.each([
  ['ratelimit_service_total_requests{grpc_method="ShouldRateLimit"}', 8],
  ['ratelimit_service_response_time_seconds_bucket{grpc_method="ShouldRateLimit",le="0.00001"}', 2],
  ['ratelimit_service_response_time_seconds_bucket{grpc_method="ShouldRateLimit",le="0.00005"}', 5],
  ['ratelimit_service_response_time_seconds_bucket{grpc_method="ShouldRateLimit",le="+Inf"}', 6],
  ['ratelimit_service_response_time_seconds_count{grpc_method="ShouldRateLimit"}', 6],
  ['ratelimit_service_response_time_seconds_sum{grpc_method="ShouldRateLimit"}', 9.000102],
  ['ratelimit_service_should_rate_limit_error{err_type="redis_error"}', 1],
  ['ratelimit_service_should_rate_limit_error{err_type="service_error"}', 1],
  ['headgate_decisions_total{outcome="allowed",source="store"}', 5],
  ['headgate_decisions_total{outcome="refused",source="denial_memory"}', 1],
  ['headgate_degraded_total{policy="allow",reason="STORE_TIMEOUT"}', 1],
  ['headgate_degraded_total{policy="deny",reason="STORE_TIMEOUT"}', 0],
  ['headgate_request_errors_total{code="REQUEST_DOMAIN_EMPTY"}', 1],
  ['headgate_unmatched_descriptors_total{domain="e\\"d\\\\g\\ne"}', 2],
  ["headgate_calls_in_flight", 5],
  ['headgate_grpc_troubles_total{trouble="ping_flood"}', 1],
  ["headgate_fast_lane_streams_total", 4],
  ["headgate_fast_lane_connections_total", 2],
  ["headgate_store_takes_total", 7],
  ["headgate_store_seconds_count", 1],
  ['headgate_store_failures_total{code="STORE_TIMEOUT"}', 1],
  ["headgate_store_repeats_total", 1],
  ["headgate_store_redirections_total", 1],
  ["headgate_store_damaged_buckets_total", 2],
  ["headgate_store_evicted_buckets_total", 3],
  ["headgate_loop_late_total", 4],
  ["headgate_store_outcome_unknown_total", 5],
  ["headgate_store_gave_back_total", 6],
  ["headgate_store_not_given_back_total", 4],
  ['headgate_store_breaker_state{state="open"}', 1],
  ['headgate_store_breaker_state{state="closed"}', 0],
  ['headgate_store_breaker_changes_total{state="open"}', 1],
  ["ratelimit_localcache_entryCount", 3],
  ["ratelimit_localcache_missCount", 6],
  ["headgate_buckets", 0],
  ['headgate_rules_info{version="3",hash="abc"}', 1],
  ["headgate_rules_age_seconds", 0],
  ["headgate_rules_limits", 1],
  ["headgate_rules_last_load_success", 0],
  ["ratelimit_service_config_load_success", 1],
  ["ratelimit_service_config_load_error", 1],
  ["headgate_statsd_errors_total", 7],
  ['headgate_runtime_limits{kind="block"}', 1],
  ['headgate_runtime_limits{kind="use"}', 0],
  ["headgate_runtime_limits_failures_total", 3],
  ['headgate_spans_total{result="dropped"}', 2],
  ["headgate_tls_certificate_lifetime_seconds", 86_400],
  ['headgate_tls_changes_total{outcome="renewed"}', 2],
  ['headgate_tls_changes_total{outcome="refused"}', 1],
  ["headgate_tls_last_change_success", 0],
])("%s is %d", (series, value) => {
  expect(sampleOf(countedText, series)).toBe(String(value));
});

test("has no sample for what is not known, rather than a zero", async () => {
  const text = await textOf(await makeParts());
  for (const { name } of [METRICS.rulesAge, METRICS.rulesInfo, METRICS.tlsRemaining, METRICS.spans])
    expect(text.split("\n").filter((line) => line.startsWith(name))).toEqual([]);
});

test("counters of rules are read when scraped; those of holds begin when there are some, live ones where they are in memory", async () => {
  const parts = await makeParts();
  const stats = parts.statsBook.statsOf("edge", ["tenant"], "");
  stats.totalHits = 9;
  const labels = '{domain="edge",key1="tenant",key2="",rule="tenant",limit=""}';
  const plain = await textOf(parts);
  expect(sampleOf(plain, `ratelimit_service_rate_limit_total_hits${labels}`)).toBe("9");
  expect(plain.split("\n").filter((line) => line.startsWith("headgate_hold_"))).toEqual([]);
  stats.totalHits++;
  stats.holdsOpened = 3;
  stats.holdsLive = 2;
  const shared = await textOf({ ...parts, store: { ...parts.store } });
  expect(sampleOf(shared, `ratelimit_service_rate_limit_total_hits${labels}`)).toBe("10");
  expect(sampleOf(shared, `headgate_hold_opened_total${labels}`)).toBe("3");
  expect(sampleOf(shared, `headgate_hold_live${labels}`)).toBeUndefined();
  expect(sampleOf(shared, "headgate_buckets")).toBeUndefined();
  expect(sampleOf(await textOf(parts), `headgate_hold_live${labels}`)).toBe("2");
  // A series that goes is taken for a process that has.
  stats.holdsLive = 0;
  expect(sampleOf(await textOf(parts), `headgate_hold_live${labels}`)).toBe("0");
});

test("the metrics of Node.js are there", async () => {
  const text = await openNodeMetrics()();
  for (const name of ["nodejs_heap_size_total_bytes", "process_start_time_seconds", "nodejs_eventloop_lag_p99_seconds"])
    expect(Number(sampleOf(text, name))).toBeGreaterThanOrEqual(0);
});
