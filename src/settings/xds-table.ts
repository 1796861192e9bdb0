// Settings of the control plane that rules come from where CONFIG_TYPE says so, under the names that envoyproxy/ratelimit has.

import { optional, setting, under } from "./setting.ts";
import { BOOLEAN, decimalNumber, durationMs, oneOf, PATH, pairs, TEXT, wholeNumber } from "./value-types.ts";

const HOUR_MS = 3_600_000;

export const XDS_SETTINGS = under("Rules", {
  configType: setting(
    "CONFIG_TYPE",
    oneOf(["file", "grpc_xds_sotw"]),
    "file",
    "Where rules come from: files, or a control plane by gRPC (xDS, state of the world). With a control plane the files of RULES_DIR, if it is set, join what it sends.",
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
    "What the control plane knows this service by: Envoy Gateway takes `envoy-ratelimit` alone.",
  ),
  xdsNodeMetadata: setting(
    "CONFIG_GRPC_XDS_NODE_METADATA",
    pairs("="),
    new Map<string, string>(),
    "What else to tell it of this service.",
  ),
  xdsHeaders: optional(
    "CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS",
    pairs(":"),
    "Headers that are sent with the stream.",
    { secret: true },
  ),
  xdsUsesTls: setting("CONFIG_GRPC_XDS_SERVER_USE_TLS", BOOLEAN, false, "Reaches the control plane by TLS."),
  xdsCertFile: optional(
    "CONFIG_GRPC_XDS_CLIENT_TLS_CERT",
    PATH,
    "File of the certificate (PEM) that the control plane is shown; this and the two below are read for every stream.",
    { isFile: true },
  ),
  xdsKeyFile: optional("CONFIG_GRPC_XDS_CLIENT_TLS_KEY", PATH, "File of its key (PEM).", { isFile: true }),
  xdsCaFile: optional(
    "CONFIG_GRPC_XDS_SERVER_TLS_CACERT",
    PATH,
    "File of the authorities (PEM) that the control plane's certificate must come from; no others are trusted.",
    { isFile: true, defaultShown: "those of Node.js" },
  ),
  xdsServerName: optional(
    "CONFIG_GRPC_XDS_SERVER_TLS_SAN",
    TEXT,
    "DNS name that the control plane's certificate must carry.",
    { defaultShown: "the host of CONFIG_GRPC_XDS_SERVER_URL" },
  ),
  xdsRetryMs: setting(
    "CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL",
    durationMs(1, HOUR_MS),
    3_000,
    "Longest pause after the first stream that failed; any time up to it. Each further one is at most twice as long.",
  ),
  xdsInitialPauseMs: optional(
    "XDS_CLIENT_BACKOFF_INITIAL_INTERVAL",
    durationMs(1, HOUR_MS),
    "The same, and goes first.",
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
    "Draws each pause anew between nothing and its bound, so that a fleet does not come back in one instant; otherwise the bound is the pause.",
  ),
  xdsRandomFactor: setting(
    "XDS_CLIENT_BACKOFF_RANDOM_FACTOR",
    decimalNumber(0, 1_000),
    0.5,
    "Accepted and without effect: pauses double, and begin anew when the control plane has answered.",
  ),
  xdsMessageBytesMax: setting(
    "XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES",
    wholeNumber(1_024, 1_073_741_824),
    67_108_864,
    "Longest set that is read, in bytes; a longer one ends the stream.",
  ),
  rulesCache: optional(
    "RULES_CACHE",
    PATH,
    "File in which the control plane's last good set is kept, for starts while it is away. Not for two processes, but for workers (WORKERS), of which one writes it.",
    { defaultShown: "none is kept" },
  ),
});
