// Settings of a control plane as the source of rules (CONFIG_TYPE), under envoyproxy/ratelimit's names.

import { optional, setting, under } from "./setting.ts";
import { BOOLEAN, decimalNumber, durationMs, METADATA, oneOf, PATH, pairs, TEXT, wholeNumber } from "./value-types.ts";

const HOUR_MS = 3_600_000;

export const XDS_SETTINGS = under("Rules", {
  configType: setting(
    "CONFIG_TYPE",
    oneOf(["file", "grpc_xds_sotw"]),
    "file",
    "Where rules come from: files, or a control plane by gRPC (xDS, state of the world). If RULES_DIR is set, its files join the rules of the control plane.",
  ),
  xdsUrl: setting(
    "CONFIG_GRPC_XDS_SERVER_URL",
    TEXT,
    "localhost:18000",
    "Address of the control plane, a gRPC target.",
  ),
  xdsNodeId: setting(
    "CONFIG_GRPC_XDS_NODE_ID",
    TEXT,
    "default",
    "The id by which the control plane knows this service. Envoy Gateway accepts only `envoy-ratelimit`.",
  ),
  xdsNodeMetadata: setting(
    "CONFIG_GRPC_XDS_NODE_METADATA",
    pairs("="),
    new Map<string, string>(),
    "Further data about this service for the control plane.",
  ),
  xdsHeaders: optional(
    "CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS",
    METADATA,
    "Headers of the stream to the control plane.",
    { secret: true },
  ),
  xdsUsesTls: setting("CONFIG_GRPC_XDS_SERVER_USE_TLS", BOOLEAN, false, "Uses TLS to the control plane."),
  xdsCertFile: optional(
    "CONFIG_GRPC_XDS_CLIENT_TLS_CERT",
    PATH,
    "File of the client certificate for the control plane (PEM). This file and the next two are read for every stream.",
    { isFile: true },
  ),
  xdsKeyFile: optional("CONFIG_GRPC_XDS_CLIENT_TLS_KEY", PATH, "File of the client certificate's key (PEM).", {
    isFile: true,
  }),
  xdsCaFile: optional(
    "CONFIG_GRPC_XDS_SERVER_TLS_CACERT",
    PATH,
    "File of the certificate authorities for the control plane's certificate (PEM). No others are trusted.",
    { isFile: true, defaultShown: "those of Node.js" },
  ),
  xdsServerName: optional(
    "CONFIG_GRPC_XDS_SERVER_TLS_SAN",
    TEXT,
    "DNS name that the control plane's certificate must have.",
    { defaultShown: "the host of CONFIG_GRPC_XDS_SERVER_URL" },
  ),
  xdsRetryMs: setting(
    "CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL",
    durationMs(1, HOUR_MS),
    3_000,
    "Longest pause after the first failed stream. The pause is any time up to this one; after each further failure it may be twice as long.",
  ),
  xdsInitialPauseMs: optional(
    "XDS_CLIENT_BACKOFF_INITIAL_INTERVAL",
    durationMs(1, HOUR_MS),
    "As CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL, and takes precedence.",
    { defaultShown: "CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL" },
  ),
  xdsMaxPauseMs: setting(
    "XDS_CLIENT_BACKOFF_MAX_INTERVAL",
    durationMs(1, HOUR_MS),
    60_000,
    "Longest pause between two streams.",
  ),
  xdsJitters: setting(
    "XDS_CLIENT_BACKOFF_JITTER",
    BOOLEAN,
    true,
    "Each pause is drawn at random between 0 and its bound, so that a fleet does not reconnect at the same instant. Otherwise the pause is the bound.",
  ),
  xdsRandomFactor: setting(
    "XDS_CLIENT_BACKOFF_RANDOM_FACTOR",
    decimalNumber(0, 1_000),
    0.5,
    "Accepted, without effect: pauses double, and are short again once the control plane has answered.",
  ),
  xdsMessageBytesMax: setting(
    "XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES",
    wholeNumber(1_024, 1_073_741_824),
    33_554_432,
    "Longest set, in bytes, unpacked if it comes by gzip. A longer one is refused; one of more than twice this length ends the stream.",
  ),
  xdsResourcesMax: setting(
    "XDS_RESOURCES_MAX",
    wholeNumber(1, 1_048_576),
    65_536,
    "Most resources in a set of the control plane. A larger set is refused.",
  ),
  rulesCache: optional(
    "RULES_CACHE",
    PATH,
    "File with the last good set of the control plane, for starts while the control plane is away. Two processes must not share the file. Workers (WORKERS) may: one of them writes it.",
    { defaultShown: "none is kept" },
  ),
});
