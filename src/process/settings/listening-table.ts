// Settings of the ports: addresses, certificates, bounds, connections, shutdown.

import { THREADS_MAX } from "../../engine/base/count-layout.ts";
import { optional, setting } from "./setting.ts";
import {
  ADMIN_TOKEN,
  BOOLEAN,
  durationMs,
  FILE,
  HOST_NAME,
  HOST_PATTERNS,
  oneOf,
  PORT,
  SOCKET_PATH,
  TEXT,
  wholeNumber,
  wholeNumberOr,
} from "./value-types.ts";

const DAY_MS = 86_400_000;

export const LISTENING_SETTINGS = {
  grpcHost: setting("GRPC_HOST", HOST_NAME, "0.0.0.0").means("Address that the gRPC port listens on."),
  grpcPort: setting("GRPC_PORT", PORT, 8081).means("gRPC port; 0 picks a free one."),
  grpcUnixSocket: optional("GRPC_UDS", SOCKET_PATH).means(
    "Path of a Unix socket for gRPC, instead of GRPC_HOST and GRPC_PORT.",
  ),
  grpcTransport: setting("GRPC_TRANSPORT", oneOf(["fast-lane", "grpc-js"]), "fast-lane").means(
    "gRPC implementation: Headgate's own HTTP/2, or grpc-js, which is several times slower, allows 512 streams per connection, and answers seconds late under a flood of calls or small frames.",
  ),
  grpcUsesTls: setting("GRPC_SERVER_USE_TLS", BOOLEAN, false).means("Serves gRPC over TLS."),
  grpcTlsCertFile: optional("GRPC_SERVER_TLS_CERT", FILE).means(
    "Certificate chain file (PEM); reloaded when it changes.",
  ),
  grpcTlsKeyFile: optional("GRPC_SERVER_TLS_KEY", FILE).means(
    "Key file of the certificate (PEM); reloaded when it changes.",
  ),
  grpcClientCaFile: optional("GRPC_CLIENT_TLS_CACERT", FILE).means(
    "CA file for client certificates (PEM). Clients then need a certificate from one of these authorities.",
    "clients need no certificate",
  ),
  grpcGatewayCaFile: optional("GRPC_SERVER_TLS_CA_CERT", FILE).means(
    "Same as GRPC_CLIENT_TLS_CACERT, which takes precedence. Envoy Gateway sets this name.",
  ),
  grpcClientName: optional("GRPC_CLIENT_TLS_SAN", TEXT).means(
    "DNS name that a client certificate must contain.",
    "any name",
  ),
  grpcReflection: optional("GRPC_REFLECTION", BOOLEAN).means(
    "Answers gRPC server reflection.",
    "`true`, under COMPATIBILITY_MODE `false`",
  ),
  grpcMaxConnectionAgeMs: setting("GRPC_MAX_CONNECTION_AGE", durationMs(0, 365 * DAY_MS), 1_800_000).means(
    "Age, plus or minus 10 %, at which the server asks a client to reconnect, so that callers spread over new processes. 0: never.",
  ),
  grpcMaxConnectionAgeGraceMs: setting("GRPC_MAX_CONNECTION_AGE_GRACE", durationMs(0, DAY_MS), 60_000).means(
    "Time for calls on such a connection to finish.",
  ),
  httpHost: setting("HOST", HOST_NAME, "0.0.0.0").means("Address that the HTTP port listens on."),
  httpPort: setting("PORT", PORT, 8080).means("HTTP port (`/json`, health, metrics, explain); 0 picks a free one."),
  httpHosts: setting("HTTP_HOSTS", HOST_PATTERNS, []).means(
    "Names (`limits.example.com`, or `*.example.com` for all below) that callers may use for `/json`, `/config` and `/rlconfig`, in addition to addresses, names without a dot, `*.localhost`, `*.internal`, `*.svc` and `*.svc.cluster.local`. Requests with another `Host` get 403, because a web page could send them under a name that points here (DNS rebinding).",
  ),
  adminToken: optional("ADMIN_TOKEN", ADMIN_TOKEN).means(
    "Token that `/state` and `/history` (the data of the operator's page), `/top`, `/explain`, `/buckets/peek` and `/buckets/reset` require (`authorization: Bearer TOKEN`): 16 to 1024 letters, digits and `._~+/-=`.",
    "none: only callers on the same host get these pages",
  ),
  adminTokenFile: optional("ADMIN_TOKEN_FILE", FILE).means(
    "File with tokens, instead of ADMIN_TOKEN: one per line, optionally after a name for the log, at most 64. Reloaded when it changes.",
  ),
  debugHost: setting("DEBUG_HOST", HOST_NAME, "0.0.0.0").means("Address that the debug port listens on."),
  debugPort: optional("DEBUG_PORT", PORT).means(
    "Port of the debug pages `/rlconfig` and `/stats`, in the reference's form; 0 picks a free one. If the port is taken, the process logs that and runs without it.",
    "none, under COMPATIBILITY_MODE and with a control plane `6070`",
  ),
  requestBytesMax: setting("REQUEST_BYTES_MAX", wholeNumber(1_024, 67_108_864), 4_194_304).means(
    "Maximum request size in bytes. Over HTTP at most 128 KiB.",
  ),
  inFlightMax: setting("IN_FLIGHT_MAX", wholeNumber(1, 1_000_000), 10_000).means(
    "Maximum number of concurrent calls; more get RESOURCE_EXHAUSTED. `/json` serves at most 1,000 at a time; more get 503.",
  ),
  workers: setting("WORKERS", wholeNumberOr("auto", 1, THREADS_MAX), 1).means(
    "Threads that share the ports, to use several cores. `auto` is one for each core that the container may use, at most 128. More than one needs Node 24 (a recent one) or newer, TCP (no GRPC_UDS) and GRPC_TRANSPORT=fast-lane. Bounds such as IN_FLIGHT_MAX apply to each worker.",
  ),
  shutdownDelayMs: setting("SHUTDOWN_DELAY", durationMs(0, 3_600_000), 5_000).means(
    "How long the process still accepts calls after SIGTERM, while it reports not ready.",
  ),
  shutdownGraceMs: setting("SHUTDOWN_GRACE", durationMs(0, 3_600_000), 20_000).means(
    "Time for running calls to finish after SHUTDOWN_DELAY.",
  ),
};
