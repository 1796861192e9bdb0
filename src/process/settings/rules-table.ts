// Settings of the rules: files, or a control plane (CONFIG_TYPE) under envoyproxy/ratelimit's names.

import { optional, setting } from "./setting.ts";
import {
  BOOLEAN,
  decimalNumber,
  durationMs,
  FILE,
  METADATA,
  oneOf,
  PATH,
  TEXT,
  TEXTS,
  wholeNumber,
} from "./value-types.ts";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

export const RULE_SETTINGS = {
  rulesDir: optional("RULES_DIR", PATH).means(
    "Directory of the rule files (`*.yaml`, `*.yml`, `*.json`) and its subdirectories. In the RUNTIME_* directory every file is a rule file.",
    "the RUNTIME_* directory if RUNTIME_ROOT or RUNTIME_SUBDIRECTORY is set, else the `deploy/rules` that comes with Headgate",
  ),
  rulesPollIntervalMs: setting("RULES_POLL_INTERVAL", durationMs(100, DAY_MS), 2_000).means(
    "How often the rule files are checked for changes. Changes that the system reports take effect sooner.",
  ),
  runtimeRoot: setting("RUNTIME_ROOT", PATH, "/srv/runtime_data/current").means(
    "First part of the rules directory if RULES_DIR is not set.",
  ),
  runtimeSubdirectory: setting("RUNTIME_SUBDIRECTORY", PATH, "").means("Second part of the rules directory."),
  runtimeAppDirectory: setting("RUNTIME_APPDIRECTORY", PATH, "config").means("Third part of the rules directory."),
  ignoresDotFiles: optional("RUNTIME_IGNOREDOTFILES", BOOLEAN).means(
    "Ignores files and directories whose name begins with a dot. Names that begin with two dots are always ignored: a mounted ConfigMap contains each file again under `..data`.",
    "`true`, under COMPATIBILITY_MODE `false`",
  ),
  runtimeWatchRoot: setting("RUNTIME_WATCH_ROOT", BOOLEAN, true).means(
    "Accepted, no effect: swapped links and edited files are both noticed.",
  ),
  mergesDomains: setting("MERGE_DOMAIN_CONFIG", BOOLEAN, false).means(
    "Merges files with the same domain. Otherwise two such files are an error.",
  ),
  startsWithoutRules: setting("FORCE_START_WITHOUT_INITIAL_CONFIG", BOOLEAN, false).means(
    "With a control plane: reports healthy before the control plane has sent rules, as Envoy Gateway's probes need; calls fail until then. With files: no effect; the process always starts, and is ready once the files are valid.",
  ),
  readyNeedsDomain: setting("HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED", BOOLEAN, false).means(
    "Ready only if at least one domain is loaded. Otherwise an empty set of rules is enough.",
  ),
  configType: setting("CONFIG_TYPE", oneOf(["file", "grpc_xds_sotw"]), "file").means(
    "Source of the rules: files, or a control plane over gRPC (xDS, state of the world). If RULES_DIR is set, its files are added to the control plane's rules.",
  ),
  xdsUrl: setting("CONFIG_GRPC_XDS_SERVER_URL", TEXT, "localhost:18000").means(
    "Address of the control plane (a gRPC target).",
  ),
  xdsNodeId: setting("CONFIG_GRPC_XDS_NODE_ID", TEXT, "default").means(
    "The id by which the control plane knows this service. Envoy Gateway accepts only `envoy-ratelimit`.",
  ),
  xdsNodeMetadata: setting("CONFIG_GRPC_XDS_NODE_METADATA", TEXTS, new Map()).means(
    "Node metadata sent to the control plane.",
  ),
  xdsHeaders: optional("CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", METADATA).means(
    "Headers of the stream to the control plane.",
  ),
  xdsUsesTls: setting("CONFIG_GRPC_XDS_SERVER_USE_TLS", BOOLEAN, false).means("Uses TLS to the control plane."),
  xdsCertFile: optional("CONFIG_GRPC_XDS_CLIENT_TLS_CERT", FILE).means(
    "File of the client certificate for the control plane (PEM). This file and the next two are reloaded for every stream.",
  ),
  xdsKeyFile: optional("CONFIG_GRPC_XDS_CLIENT_TLS_KEY", FILE).means("File of the client certificate's key (PEM)."),
  xdsCaFile: optional("CONFIG_GRPC_XDS_SERVER_TLS_CACERT", FILE).means(
    "CA file for the control plane's certificate (PEM). No other authority is trusted.",
    "those of Node.js",
  ),
  xdsServerName: optional("CONFIG_GRPC_XDS_SERVER_TLS_SAN", TEXT).means(
    "DNS name that the control plane's certificate must have.",
    "the host of CONFIG_GRPC_XDS_SERVER_URL",
  ),
  xdsRetryMs: setting("CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL", durationMs(1, HOUR_MS), 3_000).means(
    "Maximum pause after the first failed stream. The pause is random up to this time, which doubles after each further failure.",
  ),
  xdsInitialPauseMs: optional("XDS_CLIENT_BACKOFF_INITIAL_INTERVAL", durationMs(1, HOUR_MS)).means(
    "Same as CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL; takes precedence.",
    "CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL",
  ),
  xdsMaxPauseMs: setting("XDS_CLIENT_BACKOFF_MAX_INTERVAL", durationMs(1, HOUR_MS), 60_000).means(
    "Maximum pause between two streams.",
  ),
  xdsJitters: setting("XDS_CLIENT_BACKOFF_JITTER", BOOLEAN, true).means(
    "Draws each pause at random between 0 and its maximum, so that a fleet does not reconnect at once. Otherwise each pause is the maximum.",
  ),
  xdsRandomFactor: setting("XDS_CLIENT_BACKOFF_RANDOM_FACTOR", decimalNumber(0, 1_000), 0.5).means(
    "Accepted, no effect: pauses double until the control plane answers, then start over.",
  ),
  xdsMessageBytesMax: setting("XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES", wholeNumber(1_024, 1_073_741_824), 33_554_432).means(
    "Maximum size of a set in bytes, uncompressed. A larger set is rejected; more than twice this size ends the stream.",
  ),
  xdsResourcesMax: setting("XDS_RESOURCES_MAX", wholeNumber(1, 1_048_576), 65_536).means(
    "Maximum number of resources in a control plane's set. A larger set is rejected.",
  ),
  rulesCache: optional("RULES_CACHE", PATH).means(
    "File with the control plane's last good set, for a start while the control plane is down. Processes must not share the file; workers (WORKERS) may, because only one writes it.",
    "none is kept",
  ),
  runtimeLimitsMax: setting("RUNTIME_LIMITS_MAX", wholeNumber(1, 1_000_000), 100_000).means(
    "Expected number of limits at run time (docs/runtime-limits.md). Up to twice as many are kept, including ended and unset ones. All processes on a store need the same number.",
  ),
  limitsCache: optional("LIMITS_CACHE", PATH).means(
    "File that keeps limits at run time for a start while the store is down. With the memory store, only this file preserves them over a restart.",
    "none; with MEMORY_SNAPSHOT and the memory store, that file's name plus `.limits`",
  ),
  limitsUntilMaxMs: optional("LIMITS_UNTIL_MAX", durationMs(1_000, 3_650 * DAY_MS)).means(
    "Maximum duration of a limit at run time. If set, each needs an end.",
    "any time, or no end",
  ),
};
