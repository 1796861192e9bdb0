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
  grpcPort: setting("GRPC_PORT", PORT, 8081).means("Port of gRPC; 0 takes a free one."),
  grpcUnixSocket: optional("GRPC_UDS", SOCKET_PATH).means(
    "Path of a Unix socket for gRPC, instead of GRPC_HOST and GRPC_PORT.",
  ),
  grpcTransport: setting("GRPC_TRANSPORT", oneOf(["fast-lane", "grpc-js"]), "fast-lane").means(
    "What reads gRPC: Headgate's own HTTP/2, or grpc-js, which is several times slower, allows 512 streams a connection, and is seconds late under floods of complete calls or of small frames.",
  ),
  grpcUsesTls: setting("GRPC_SERVER_USE_TLS", BOOLEAN, false).means("Serves gRPC over TLS."),
  grpcTlsCertFile: optional("GRPC_SERVER_TLS_CERT", FILE).means(
    "File of the certificate chain (PEM). It is read again when it changes.",
  ),
  grpcTlsKeyFile: optional("GRPC_SERVER_TLS_KEY", FILE).means(
    "File of the certificate's key (PEM). It is read again when it changes.",
  ),
  grpcClientCaFile: optional("GRPC_CLIENT_TLS_CACERT", FILE).means(
    "File of the certificate authorities for client certificates (PEM). No others are trusted, and clients need a certificate.",
    "clients need no certificate",
  ),
  grpcGatewayCaFile: optional("GRPC_SERVER_TLS_CA_CERT", FILE).means(
    "As GRPC_CLIENT_TLS_CACERT, which takes precedence; this is the name that Envoy Gateway sets.",
  ),
  grpcClientName: optional("GRPC_CLIENT_TLS_SAN", TEXT).means(
    "DNS name that client certificates must have.",
    "any name",
  ),
  grpcReflection: optional("GRPC_REFLECTION", BOOLEAN).means(
    "Answers gRPC server reflection.",
    "`true`, under COMPATIBILITY_MODE `false`",
  ),
  grpcMaxConnectionAgeMs: setting("GRPC_MAX_CONNECTION_AGE", durationMs(0, 365 * DAY_MS), 1_800_000).means(
    "Age at which a connection is asked to end, plus or minus 10 %, so that callers spread over new processes. 0: never.",
  ),
  grpcMaxConnectionAgeGraceMs: setting("GRPC_MAX_CONNECTION_AGE_GRACE", durationMs(0, DAY_MS), 60_000).means(
    "How long calls on such a connection may still take.",
  ),
  httpHost: setting("HOST", HOST_NAME, "0.0.0.0").means("Address that the HTTP port listens on."),
  httpPort: setting("PORT", PORT, 8080).means("Port of HTTP (`/json`, health, metrics, explain); 0 takes a free one."),
  httpHosts: setting("HTTP_HOSTS", HOST_PATTERNS, []).means(
    "Names (`limits.example.com`, or `*.example.com` for all below) by which callers may ask for `/json`, `/config` and `/rlconfig`, in addition to addresses, names without a dot, `*.localhost`, `*.internal`, `*.svc` and `*.svc.cluster.local`. Requests with another `Host` get 403: somebody may have pointed that name here to let a web page ask.",
  ),
  adminToken: optional("ADMIN_TOKEN", ADMIN_TOKEN).means(
    "Token that `/state` and `/history` (the data of the operator's page), `/top`, `/explain`, `/buckets/peek` and `/buckets/reset` require (`authorization: Bearer TOKEN`): 16 to 1024 letters, digits and `._~+/-=`.",
    "none: these pages answer only callers on the same host",
  ),
  adminTokenFile: optional("ADMIN_TOKEN_FILE", FILE).means(
    "File with tokens, instead of ADMIN_TOKEN: one per line, with a name for the log before it if wanted, at most 64. It is read again when it changes.",
  ),
  debugHost: setting("DEBUG_HOST", HOST_NAME, "0.0.0.0").means("Address that the debug port listens on."),
  debugPort: optional("DEBUG_PORT", PORT).means(
    "Port of the debug pages `/rlconfig` and `/stats`, in the reference's form; 0 takes a free one. If the port is taken, the process logs that and runs without it.",
    "none, under COMPATIBILITY_MODE and with a control plane `6070`",
  ),
  requestBytesMax: setting("REQUEST_BYTES_MAX", wholeNumber(1_024, 67_108_864), 4_194_304).means(
    "Longest request, in bytes. Over HTTP never more than 128 KiB.",
  ),
  inFlightMax: setting("IN_FLIGHT_MAX", wholeNumber(1, 1_000_000), 10_000).means(
    "Most calls under way at the same time. Further calls are answered RESOURCE_EXHAUSTED. Of requests to `/json` at most 1,000 are under way; further ones get 503.",
  ),
  workers: setting("WORKERS", wholeNumberOr("auto", 1, THREADS_MAX), 1).means(
    "Threads that share the ports, so that more than one core decides. `auto` is one for each core that the container may use, at most 128. More than one needs Node 24 (a recent one) or newer, TCP (no GRPC_UDS) and GRPC_TRANSPORT=fast-lane. Bounds such as IN_FLIGHT_MAX hold for each worker.",
  ),
  shutdownDelayMs: setting("SHUTDOWN_DELAY", durationMs(0, 3_600_000), 5_000).means(
    "How long after SIGTERM the process still accepts calls, while it already reports that it is not ready.",
  ),
  shutdownGraceMs: setting("SHUTDOWN_GRACE", durationMs(0, 3_600_000), 20_000).means(
    "How long calls under way may take after SHUTDOWN_DELAY.",
  ),
};
