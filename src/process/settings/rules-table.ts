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
    "How often the content of the rule files is compared. Changes that the system reports take effect without this wait.",
  ),
  runtimeRoot: setting("RUNTIME_ROOT", PATH, "/srv/runtime_data/current").means(
    "First part of the rules directory if RULES_DIR is not set.",
  ),
  runtimeSubdirectory: setting("RUNTIME_SUBDIRECTORY", PATH, "").means("Second part of the rules directory."),
  runtimeAppDirectory: setting("RUNTIME_APPDIRECTORY", PATH, "config").means("Third part of the rules directory."),
  ignoresDotFiles: optional("RUNTIME_IGNOREDOTFILES", BOOLEAN).means(
    "Ignores files and directories whose name begins with a dot. Names that begin with two dots are always ignored: a mounted ConfigMap has each file a second time under `..data`.",
    "`true`, under COMPATIBILITY_MODE `false`",
  ),
  runtimeWatchRoot: setting("RUNTIME_WATCH_ROOT", BOOLEAN, true).means(
    "Accepted, without effect: swapped links and edited files are both noticed.",
  ),
  mergesDomains: setting("MERGE_DOMAIN_CONFIG", BOOLEAN, false).means(
    "Joins files that name the same domain. Otherwise two such files are an error.",
  ),
  startsWithoutRules: setting("FORCE_START_WITHOUT_INITIAL_CONFIG", BOOLEAN, false).means(
    "With a control plane: the process is healthy before the control plane has sent rules, as the probes of Envoy Gateway need; calls fail until then. With files: without effect; the process always starts, and is ready once the files can be used.",
  ),
  readyNeedsDomain: setting("HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED", BOOLEAN, false).means(
    "The process is ready only if at least one domain is loaded. Otherwise rules without any domain are enough.",
  ),
  configType: setting("CONFIG_TYPE", oneOf(["file", "grpc_xds_sotw"]), "file").means(
    "Where rules come from: files, or a control plane by gRPC (xDS, state of the world). If RULES_DIR is set, its files join the rules of the control plane.",
  ),
  xdsUrl: setting("CONFIG_GRPC_XDS_SERVER_URL", TEXT, "localhost:18000").means(
    "Address of the control plane, a gRPC target.",
  ),
  xdsNodeId: setting("CONFIG_GRPC_XDS_NODE_ID", TEXT, "default").means(
    "The id by which the control plane knows this service. Envoy Gateway accepts only `envoy-ratelimit`.",
  ),
  xdsNodeMetadata: setting("CONFIG_GRPC_XDS_NODE_METADATA", TEXTS, new Map()).means(
    "Further data about this service for the control plane.",
  ),
  xdsHeaders: optional("CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", METADATA).means(
    "Headers of the stream to the control plane.",
  ),
  xdsUsesTls: setting("CONFIG_GRPC_XDS_SERVER_USE_TLS", BOOLEAN, false).means("Uses TLS to the control plane."),
  xdsCertFile: optional("CONFIG_GRPC_XDS_CLIENT_TLS_CERT", FILE).means(
    "File of the client certificate for the control plane (PEM). This file and the next two are read for every stream.",
  ),
  xdsKeyFile: optional("CONFIG_GRPC_XDS_CLIENT_TLS_KEY", FILE).means("File of the client certificate's key (PEM)."),
  xdsCaFile: optional("CONFIG_GRPC_XDS_SERVER_TLS_CACERT", FILE).means(
    "File of the certificate authorities for the control plane's certificate (PEM). No others are trusted.",
    "those of Node.js",
  ),
  xdsServerName: optional("CONFIG_GRPC_XDS_SERVER_TLS_SAN", TEXT).means(
    "DNS name that the control plane's certificate must have.",
    "the host of CONFIG_GRPC_XDS_SERVER_URL",
  ),
  xdsRetryMs: setting("CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL", durationMs(1, HOUR_MS), 3_000).means(
    "Longest pause after the first failed stream. The pause is any time up to this one; after each further failure it may be twice as long.",
  ),
  xdsInitialPauseMs: optional("XDS_CLIENT_BACKOFF_INITIAL_INTERVAL", durationMs(1, HOUR_MS)).means(
    "As CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL, and takes precedence.",
    "CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL",
  ),
  xdsMaxPauseMs: setting("XDS_CLIENT_BACKOFF_MAX_INTERVAL", durationMs(1, HOUR_MS), 60_000).means(
    "Longest pause between two streams.",
  ),
  xdsJitters: setting("XDS_CLIENT_BACKOFF_JITTER", BOOLEAN, true).means(
    "Each pause is drawn at random between 0 and its bound, so that a fleet does not reconnect at the same instant. Otherwise the pause is the bound.",
  ),
  xdsRandomFactor: setting("XDS_CLIENT_BACKOFF_RANDOM_FACTOR", decimalNumber(0, 1_000), 0.5).means(
    "Accepted, without effect: pauses double, and are short again once the control plane has answered.",
  ),
  xdsMessageBytesMax: setting("XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES", wholeNumber(1_024, 1_073_741_824), 33_554_432).means(
    "Longest set, in bytes, unpacked if it comes by gzip. A longer one is refused; one of more than twice this length ends the stream.",
  ),
  xdsResourcesMax: setting("XDS_RESOURCES_MAX", wholeNumber(1, 1_048_576), 65_536).means(
    "Most resources in a set of the control plane. A larger set is refused.",
  ),
  rulesCache: optional("RULES_CACHE", PATH).means(
    "File with the last good set of the control plane, for starts while the control plane is away. Two processes must not share the file. Workers (WORKERS) may: one of them writes it.",
    "none is kept",
  ),
  runtimeLimitsMax: setting("RUNTIME_LIMITS_MAX", wholeNumber(1, 1_000_000), 100_000).means(
    "Limits at run time to plan for (docs/runtime-limits.md): up to twice as many are kept, ended and unset ones included. All processes on a store need the same number.",
  ),
  limitsCache: optional("LIMITS_CACHE", PATH).means(
    "File that keeps limits at run time for a start while the store is away. With the memory store they outlive the process only there.",
    "none; with MEMORY_SNAPSHOT and the memory store its name and `.limits`",
  ),
  limitsUntilMaxMs: optional("LIMITS_UNTIL_MAX", durationMs(1_000, 3_650 * DAY_MS)).means(
    "How long a limit at run time may last at most; then each needs an end.",
    "any time, or no end",
  ),
};
