// Settings of logs and counters.

import { optional, setting, under } from "./setting.ts";
import {
  BOOLEAN,
  decimalNumber,
  durationMs,
  HOST_NAME,
  LISTEN_ADDRESS,
  oneOf,
  PORT,
  TAGS,
  URL_PATH,
  wholeNumber,
} from "./value-types.ts";

export const LOG_LEVELS = ["fatal", "error", "warn", "info", "debug", "trace", "silent"] as const;

export const TELEMETRY_SETTINGS = under("Telemetry", {
  logLevel: setting(
    "LOG_LEVEL",
    oneOf(LOG_LEVELS, { panic: "fatal", warning: "warn" }),
    "info",
    "Least level that is logged (`panic` and `warning` are understood too).",
  ),
  logFormat: setting("LOG_FORMAT", oneOf(["json", "text"]), "json", "One JSON object per line, or lines for people."),
  prometheusPath: setting("PROMETHEUS_PATH", URL_PATH, "/metrics", "Path of the metrics on the HTTP port."),
  prometheusAddress: optional(
    "PROMETHEUS_ADDR",
    LISTEN_ADDRESS,
    "Serves the metrics on this address too. One that is taken is logged and done without.",
    { defaultShown: "none, under COMPATIBILITY_MODE with USE_PROMETHEUS=true `:9090`" },
  ),
  usesPrometheus: optional("USE_PROMETHEUS", BOOLEAN, "`false` leaves PROMETHEUS_ADDR out of use.", {
    defaultShown: "`true` if PROMETHEUS_ADDR is set",
  }),
  usesStatsd: optional("USE_STATSD", BOOLEAN, "Sends counters to a statsd server too.", {
    defaultShown: "`false`, under COMPATIBILITY_MODE `true` if STATSD_HOST is set",
  }),
  usesDogStatsd: setting("USE_DOG_STATSD", BOOLEAN, false, "The same in DogStatsD's dialect, with EXTRA_TAGS as tags."),
  disablesStats: setting("DISABLE_STATS", BOOLEAN, false, "Sends nothing to statsd, whatever else is set."),
  statsdHost: setting("STATSD_HOST", HOST_NAME, "localhost", "Where the statsd server is."),
  statsdPort: setting("STATSD_PORT", PORT, 8125, "Its port."),
  statsdProtocol: setting("STATSD_PROTOCOL", oneOf(["tcp", "udp"]), "tcp", "How counters travel to it."),
  statsFlushIntervalMs: setting("STATS_FLUSH_INTERVAL", durationMs(10, 3_600_000), 10_000, "How often they are sent."),
  extraTags: setting("EXTRA_TAGS", TAGS, new Map(), "Tags on all counters sent to statsd: `key:value,key2:value2`."),
  metricValuesMax: setting(
    "METRIC_VALUES_MAX",
    wholeNumber(0, 10_000),
    200,
    "Most values of callers that become metric labels, per rule; further ones count under `other`.",
  ),
  metricRulesMax: setting(
    "METRIC_RULES_MAX",
    wholeNumber(1, 1_000_000),
    2_000,
    "Most rules, with their values of callers, that have series of their own on the metrics page, per domain, in the order of their first hits; further ones are added up as `(other rules)`. Six series each.",
  ),
  nearLimitRatio: setting(
    "NEAR_LIMIT_RATIO",
    decimalNumber(0, 1),
    0.8,
    "Share of a limit from which hits count as near it.",
  ),
});
