// Settings of the rules: files, or a control plane (CONFIG_TYPE) under envoyproxy/ratelimit's names.

import { optional, setting } from "./setting.ts";
import { BOOLEAN, durationMs, FILE, METADATA, oneOf, PATH, TEXT, TEXTS, wholeNumber } from "./value-types.ts";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

export const RULE_SETTINGS = {
  rulesDir: optional("RULES_DIR", PATH).means(
    "Directory of rule files (`*.yaml`, `*.yml`, `*.json`), with subdirectories. In the RUNTIME_* directory every file is a rule file.",
    "that of RUNTIME_ROOT, if it or RUNTIME_SUBDIRECTORY is set, else the bundled `deploy/rules`",
  ),
  runtimeRoot: setting("RUNTIME_ROOT", PATH, "/srv/runtime_data/current").means(
    "Without RULES_DIR the rules are in RUNTIME_ROOT/RUNTIME_SUBDIRECTORY/RUNTIME_APPDIRECTORY.",
  ),
  runtimeSubdirectory: setting("RUNTIME_SUBDIRECTORY", PATH, "").means("See RUNTIME_ROOT."),
  runtimeAppDirectory: setting("RUNTIME_APPDIRECTORY", PATH, "config").means("See RUNTIME_ROOT."),
  ignoresDotFiles: optional("RUNTIME_IGNOREDOTFILES", BOOLEAN).means(
    "Ignores files and directories whose name begins with `.`. Names with `..`, such as a ConfigMap's `..data`, are always ignored.",
    "`true`, under COMPATIBILITY_MODE `false`",
  ),
  mergesDomains: setting("MERGE_DOMAIN_CONFIG", BOOLEAN, false).means(
    "Merges files with the same domain. `false`: such files are an error.",
  ),
  startsWithoutRules: setting("FORCE_START_WITHOUT_INITIAL_CONFIG", BOOLEAN, false).means(
    "Reports healthy before a control plane's first rules, as Envoy Gateway's probes need; calls fail until then.",
  ),
  readyNeedsDomain: setting("HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED", BOOLEAN, false).means(
    "Ready only with at least one domain. `false`: an empty set of rules is enough.",
  ),
  configType: setting("CONFIG_TYPE", oneOf(["file", "grpc_xds_sotw"]), "file").means(
    "Rules from files, or from a control plane (xDS, state of the world) plus RULES_DIR, if set.",
  ),
  xdsUrl: setting("CONFIG_GRPC_XDS_SERVER_URL", TEXT, "localhost:18000").means(
    "Control plane's address (a gRPC target).",
  ),
  xdsNodeId: setting("CONFIG_GRPC_XDS_NODE_ID", TEXT, "default").means(
    "Node id; Envoy Gateway accepts only `envoy-ratelimit`.",
  ),
  xdsNodeMetadata: setting("CONFIG_GRPC_XDS_NODE_METADATA", TEXTS, new Map()).means(
    "Node metadata: `name=value,name2=value2`.",
  ),
  xdsHeaders: optional("CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", METADATA).means(
    "Headers for the control plane: `name:value,name2:value2`.",
  ),
  xdsUsesTls: setting("CONFIG_GRPC_XDS_SERVER_USE_TLS", BOOLEAN, false).means("Uses TLS to the control plane."),
  xdsCertFile: optional("CONFIG_GRPC_XDS_CLIENT_TLS_CERT", FILE).means(
    "Client certificate and its key. They and the CA are reloaded for every stream.",
  ),
  xdsKeyFile: optional("CONFIG_GRPC_XDS_CLIENT_TLS_KEY", FILE).means(
    "Client certificate and its key. They and the CA are reloaded for every stream.",
  ),
  xdsCaFile: optional("CONFIG_GRPC_XDS_SERVER_TLS_CACERT", FILE).means(
    "CA of the control plane's certificate. No other CA is trusted.",
    "those of Node.js",
  ),
  xdsServerName: optional("CONFIG_GRPC_XDS_SERVER_TLS_SAN", TEXT).means(
    "DNS name that the control plane's certificate must have.",
    "the host of CONFIG_GRPC_XDS_SERVER_URL",
  ),
  xdsRetryMs: setting(
    ["XDS_CLIENT_BACKOFF_INITIAL_INTERVAL", "CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL"],
    durationMs(1, HOUR_MS),
    3_000,
  ).means("Maximum pause after the first failed stream; doubles after each further failure."),
  xdsMaxPauseMs: setting("XDS_CLIENT_BACKOFF_MAX_INTERVAL", durationMs(1, HOUR_MS), 60_000).means(
    "Maximum pause between streams.",
  ),
  xdsJitters: setting("XDS_CLIENT_BACKOFF_JITTER", BOOLEAN, true).means(
    "Draws each pause at random from 0 to its maximum. `false`: always the maximum.",
  ),
  xdsMessageBytesMax: setting("XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES", wholeNumber(1_024, 1_073_741_824), 33_554_432).means(
    "Maximum bytes of a set, uncompressed. A larger set is rejected; more than twice this ends the stream.",
  ),
  rulesCache: optional("RULES_CACHE", PATH).means(
    "File that keeps the control plane's last good set, for a start without it. One per process.",
  ),
  runtimeLimitsMax: setting("RUNTIME_LIMITS_MAX", wholeNumber(1, 1_000_000), 100_000).means(
    "Expected limits at run time (docs/runtime-limits.md). Up to twice as many are kept, ended and unset ones included. All processes on a store need the same number.",
  ),
  limitsCache: optional("LIMITS_CACHE", PATH).means(
    "File that keeps limits at run time, for a start while the store is down. The memory store keeps them over a restart only here.",
    "MEMORY_SNAPSHOT plus `.limits`, if that is set",
  ),
  limitsUntilMaxMs: optional("LIMITS_UNTIL_MAX", durationMs(1_000, 3_650 * DAY_MS)).means(
    "If set, every limit at run time needs an end, at most this far ahead.",
  ),
};
