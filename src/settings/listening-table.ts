// Settings of the ports: addresses, certificates, bounds, connections, shutdown.

import { optional, setting } from "./setting.ts";
import {
  ADMIN_TOKEN,
  BOOLEAN,
  durationMs,
  FILE,
  HOST_NAME,
  HOST_PATTERNS,
  HTTP_ADDRESS,
  oneOf,
  PORT,
  SOCKET_PATH,
  TEXT,
  wholeNumber,
} from "./value-types.ts";

const DAY_MS = 86_400_000;

export const LISTENING_SETTINGS = {
  grpcHost: setting("GRPC_HOST", HOST_NAME, "0.0.0.0").means("Address of the gRPC, HTTP and debug port."),
  grpcPort: setting("GRPC_PORT", PORT, 8081).means("gRPC port. 0: a free one."),
  grpcUnixSocket: optional("GRPC_UDS", SOCKET_PATH).means("Unix socket for gRPC, instead of GRPC_HOST and GRPC_PORT."),
  grpcTransport: setting("GRPC_TRANSPORT", oneOf(["fast-lane", "grpc-js"]), "fast-lane").means(
    "Headgate's own HTTP/2, or grpc-js: several times slower, 512 streams per connection, seconds late under floods, and ended by hostile frames before Node 24.",
  ),
  grpcUsesTls: setting("GRPC_SERVER_USE_TLS", BOOLEAN, false).means("Serves gRPC over TLS."),
  grpcTlsCertFile: optional("GRPC_SERVER_TLS_CERT", FILE).means(
    "Certificate chain and its key; reloaded when they change.",
  ),
  grpcTlsKeyFile: optional("GRPC_SERVER_TLS_KEY", FILE).means(
    "Certificate chain and its key; reloaded when they change.",
  ),
  grpcClientCaFile: optional(["GRPC_CLIENT_TLS_CACERT", "GRPC_SERVER_TLS_CA_CERT"], FILE).means(
    "CA of client certificates. If set, clients need one.",
  ),
  grpcClientName: optional("GRPC_CLIENT_TLS_SAN", TEXT).means(
    "If set, DNS name that client certificates must contain.",
  ),
  grpcMaxConnectionAgeMs: setting("GRPC_MAX_CONNECTION_AGE", durationMs(0, 365 * DAY_MS), 1_800_000).means(
    "Age, give or take 10 %, at which clients are told to reconnect, to spread over new processes. 0: never.",
  ),
  grpcMaxConnectionAgeGraceMs: setting("GRPC_MAX_CONNECTION_AGE_GRACE", durationMs(0, DAY_MS), 60_000).means(
    "Time for calls on such a connection to finish.",
  ),
  httpHost: setting("HOST", HOST_NAME, "0.0.0.0").means("Address of the gRPC, HTTP and debug port."),
  httpPort: setting("PORT", PORT, 8080).means("HTTP port (`/json`, health, metrics, operator's page). 0: a free one."),
  httpHosts: setting("HTTP_HOSTS", HOST_PATTERNS, []).means(
    "Host names (`limits.example.com`, `*.example.com`) that `/json`, `/config` and `/rlconfig` answer to, besides IP addresses, names without a dot, `*.localhost`, `*.internal`, `*.svc` and `*.svc.cluster.local`. Others get 403, against DNS rebinding.",
  ),
  adminToken: optional("ADMIN_TOKEN", ADMIN_TOKEN).means(
    "Token (`authorization: Bearer TOKEN`) for the operator's page, `/top`, `/explain`, `/buckets` and `/limits`: 16 to 1024 letters, digits and `._~+/-=`.",
    "none: only the same host gets these pages, nobody gets `/limits`",
  ),
  docsAddress: optional("DOCS_ADDRESS", HTTP_ADDRESS).means(
    "Address of a copy of `docs/`, such as `https://git.example.com/headgate/docs`: links of the operator's page lead there.",
    "none: the page names files of `docs/`",
  ),
  adminTokenFile: optional("ADMIN_TOKEN_FILE", FILE).means(
    "File with up to 64 tokens instead: one per line, optionally after a name for the log. Reloaded when it changes; emptied or deleted, it revokes all.",
  ),
  debugHost: setting("DEBUG_HOST", HOST_NAME, "0.0.0.0").means("Address of the gRPC, HTTP and debug port."),
  debugPort: optional("DEBUG_PORT", PORT).means(
    "Port of the reference's debug pages `/rlconfig` and `/stats`. 0: a free one. If taken, the process runs without it.",
    "none, under COMPATIBILITY_MODE and with a control plane `6070`",
  ),
  inFlightMax: setting("IN_FLIGHT_MAX", wholeNumber(1, 1_000_000), 10_000).means(
    "Maximum concurrent calls; more get RESOURCE_EXHAUSTED. On `/json` at most 1,000; more get 503.",
  ),
  shutdownDelayMs: setting("SHUTDOWN_DELAY", durationMs(0, 3_600_000), 5_000).means(
    "Time after SIGTERM in which calls are accepted while the process reports not ready.",
  ),
  shutdownGraceMs: setting("SHUTDOWN_GRACE", durationMs(0, 3_600_000), 20_000).means(
    "Time for running calls to finish after SHUTDOWN_DELAY.",
  ),
};
