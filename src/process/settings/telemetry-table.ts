// Settings of logs and metrics.

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

/** Which decisions the decision log contains. */
const DECISION_LOG_KINDS = ["off", "refusals", "all"] as const;

export const TELEMETRY_SETTINGS = under("Telemetry", {
  logLevel: setting(
    "LOG_LEVEL",
    oneOf(LOG_LEVELS, { panic: "fatal", warning: "warn" }),
    "info",
    "Lowest level that is logged (`panic` and `warning` are accepted too).",
  ),
  logFormat: setting("LOG_FORMAT", oneOf(["json", "text"]), "json", "One JSON object per line, or lines for people."),
  decisionLog: setting(
    "DECISION_LOG",
    oneOf(DECISION_LOG_KINDS),
    "off",
    "Writes each refusal, or each decision, in the form that `headgate simulate` reads (docs/simulate.md).",
  ),
  decisionLogFile: optional(
    "DECISION_LOG_FILE",
    PATH,
    "File for these decisions. With several workers each adds its number, such as `decisions.2.jsonl`.",
    { defaultShown: "the process's log" },
  ),
  decisionLogShare: setting(
    "DECISION_LOG_SAMPLE",
    decimalNumber(0, 1),
    1,
    "Share of these decisions that is written, chosen at random.",
  ),
  decisionLogRate: setting(
    "DECISION_LOG_RATE",
    wholeNumber(1, 1_000_000),
    10,
    "Most lines per second for each limit, and most lines at once. The next line says how many were left out.",
  ),
  decisionLogBytesMax: setting(
    "DECISION_LOG_FILE_BYTES_MAX",
    wholeNumber(65_536, 1_099_511_627_776),
    67_108_864,
    "Most bytes of a file. A full file is renamed to `.1`, the file `.1` to `.2`, and so on.",
  ),
  decisionLogFilesMax: setting(
    "DECISION_LOG_FILES",
    wholeNumber(1, 1_000),
    4,
    "Files that are kept, including the current one. The oldest is deleted.",
  ),
  prometheusPath: setting("PROMETHEUS_PATH", URL_PATH, "/metrics", "Path of the metrics on the HTTP port."),
  prometheusAddress: optional(
    "PROMETHEUS_ADDR",
    LISTEN_ADDRESS,
    "Serves the metrics on this address too. If the address is taken, the process logs that and runs without it.",
    { defaultShown: "none, under COMPATIBILITY_MODE with USE_PROMETHEUS=true `:9090`" },
  ),
  usesPrometheus: optional("USE_PROMETHEUS", BOOLEAN, "`false` ignores PROMETHEUS_ADDR.", {
    defaultShown: "`true` if PROMETHEUS_ADDR is set",
  }),
  usesStatsd: optional("USE_STATSD", BOOLEAN, "Sends counters to a statsd server too.", {
    defaultShown: "`false`, under COMPATIBILITY_MODE `true` if STATSD_HOST is set",
  }),
  usesDogStatsd: setting(
    "USE_DOG_STATSD",
    BOOLEAN,
    false,
    "Sends counters in DogStatsD's dialect, with EXTRA_TAGS as tags.",
  ),
  disablesStats: setting("DISABLE_STATS", BOOLEAN, false, "Sends nothing to statsd, whatever else is set."),
  statsdHost: setting("STATSD_HOST", HOST_NAME, "localhost", "Host of the statsd server."),
  statsdPort: setting("STATSD_PORT", PORT, 8125, "Its port."),
  statsdProtocol: setting("STATSD_PROTOCOL", oneOf(["tcp", "udp"]), "tcp", "Protocol to the statsd server."),
  statsFlushIntervalMs: setting(
    "STATS_FLUSH_INTERVAL",
    durationMs(10, 3_600_000),
    10_000,
    "How often counters are sent to statsd.",
  ),
  extraTags: setting("EXTRA_TAGS", TAGS, new Map(), "Tags on all counters sent to statsd: `key:value,key2:value2`."),
  metricValuesMax: setting(
    "METRIC_VALUES_MAX",
    wholeNumber(0, 10_000),
    200,
    "Most values of callers that become metric labels, per rule. Further values count as `other`.",
  ),
  metricRulesMax: setting(
    "METRIC_RULES_MAX",
    wholeNumber(1, 1_000_000),
    2_000,
    "Most rules, and values of callers, that have series on the metrics page, per domain, in the order of their first hits. Further ones are added up as `(other rules)`. Each has six series, and up to eight more with holds.",
  ),
  topKeysMax: setting(
    "TOP_KEYS",
    wholeNumber(0, 2_000),
    500,
    "Keys that `/top` and `headgate top` tell apart over all rules, among keys that pass and among keys that are refused (docs/operations.md); at most 2,000. 0 counts none.",
  ),
  topKeysShown: setting(
    "TOP_KEYS_METRICS",
    wholeNumber(0, 100),
    0,
    "How many of the keys that are refused most are series of `headgate_top_refused`. Everybody who reaches the port can read the metrics page, and keys name callers, except under rules with `hash_values`.",
  ),
  nearLimitRatio: setting(
    "NEAR_LIMIT_RATIO",
    decimalNumber(0, 1),
    0.8,
    "Share of a limit above which hits count as near the limit.",
  ),
});
