// Settings of logs and counters.

import { optional, setting, under } from "./setting.ts";
import {
  BOOLEAN,
  decimalNumber,
  durationMs,
  HOST_NAME,
  LISTEN_ADDRESS,
  oneOf,
  PATH,
  PORT,
  TAGS,
  URL_PATH,
  wholeNumber,
} from "./value-types.ts";

const LOG_LEVELS = ["fatal", "error", "warn", "info", "debug", "trace", "silent"] as const;

/** Which decisions are written one by one. */
const DECISION_LOG_KINDS = ["off", "refusals", "all"] as const;

export const TELEMETRY_SETTINGS = under("Telemetry", {
  logLevel: setting(
    "LOG_LEVEL",
    oneOf(LOG_LEVELS, { panic: "fatal", warning: "warn" }),
    "info",
    "Least level that is logged (`panic` and `warning` are understood too).",
  ),
  logFormat: setting("LOG_FORMAT", oneOf(["json", "text"]), "json", "One JSON object per line, or lines for people."),
  decisionLog: setting(
    "DECISION_LOG",
    oneOf(DECISION_LOG_KINDS),
    "off",
    "Writes decisions one by one, in the form that `headgate simulate` reads: refusals, or all (docs/simulate.md).",
  ),
  decisionLogFile: optional(
    "DECISION_LOG_FILE",
    PATH,
    "Where they are written; worker 2 of several adds its number, as in `decisions.2.jsonl`.",
    { defaultShown: "the process's log" },
  ),
  decisionLogShare: setting(
    "DECISION_LOG_SAMPLE",
    decimalNumber(0, 1),
    1,
    "Share of those decisions that is written, picked by chance.",
  ),
  decisionLogRate: setting(
    "DECISION_LOG_RATE",
    wholeNumber(1, 1_000_000),
    10,
    "Most lines per second and limit; the next one says how many were left out. As many may come at once.",
  ),
  decisionLogBytesMax: setting(
    "DECISION_LOG_FILE_BYTES_MAX",
    wholeNumber(65_536, 1_099_511_627_776),
    67_108_864,
    "Longest file; a full one is renamed to `.1`, that to `.2` and so on.",
  ),
  decisionLogFilesMax: setting(
    "DECISION_LOG_FILES",
    wholeNumber(1, 1_000),
    4,
    "Files that are kept, the one that is written to included; the oldest goes.",
  ),
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
  topKeysMax: setting(
    "TOP_KEYS",
    wholeNumber(0, 2_000),
    500,
    "Keys that `/top` and `headgate top` tell apart over all rules, of those who pass and of those who are refused (docs/operations.md), at most 2,000. 0 counts nobody.",
  ),
  topKeysShown: setting(
    "TOP_KEYS_METRICS",
    wholeNumber(0, 100),
    0,
    "So many of the keys that are refused most become series of `headgate_top_refused`. The metrics page is open to all who reach the port, and keys name callers, but those with `hash_values`.",
  ),
  nearLimitRatio: setting(
    "NEAR_LIMIT_RATIO",
    decimalNumber(0, 1),
    0.8,
    "Share of a limit from which hits count as near it.",
  ),
});
