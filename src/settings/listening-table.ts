// Settings of the ports: addresses, certificates, bounds, connections, the end.

import { ADMIN_ROWS } from "./admin-rows.ts";
import { optional, setting, under } from "./setting.ts";
import { BOOLEAN, durationMs, HOST_NAME, oneOf, PATH, PORT, TEXT, wholeNumber, wholeNumberOr } from "./value-types.ts";

const DAY_MS = 86_400_000;
const WORKERS_MAX = 128;

export const LISTENING_SETTINGS = under("Listening", {
  grpcHost: setting("GRPC_HOST", HOST_NAME, "0.0.0.0", "Address that the gRPC port listens on."),
  grpcPort: setting("GRPC_PORT", PORT, 8081, "Port of gRPC; 0 takes a free one."),
  grpcUnixSocket: optional(
    "GRPC_UDS",
    PATH,
    "Path of a Unix socket to serve gRPC on in place of GRPC_HOST and GRPC_PORT.",
  ),
  grpcTransport: setting(
    "GRPC_TRANSPORT",
    oneOf(["fast-lane", "grpc-js"]),
    "fast-lane",
    "Who reads gRPC from the wire: Headgate's own HTTP/2 for short calls with grpc-js behind it, or grpc-js alone.",
  ),
  grpcUsesTls: setting("GRPC_SERVER_USE_TLS", BOOLEAN, false, "Serves gRPC over TLS."),
  grpcTlsCertFile: optional(
    "GRPC_SERVER_TLS_CERT",
    PATH,
    "File of the certificate chain (PEM); read again when it changes.",
    {
      isFile: true,
    },
  ),
  grpcTlsKeyFile: optional(
    "GRPC_SERVER_TLS_KEY",
    PATH,
    "File of the certificate's key (PEM); read again when it changes.",
    {
      isFile: true,
    },
  ),
  grpcClientCaFile: optional(
    "GRPC_CLIENT_TLS_CACERT",
    PATH,
    "File of the authorities (PEM) that clients must have a certificate of; no others are trusted.",
    { isFile: true, defaultShown: "clients need no certificate" },
  ),
  grpcGatewayCaFile: optional(
    "GRPC_SERVER_TLS_CA_CERT",
    PATH,
    "The same, under the name that Envoy Gateway sets; GRPC_CLIENT_TLS_CACERT goes first.",
    { isFile: true },
  ),
  grpcClientName: optional("GRPC_CLIENT_TLS_SAN", TEXT, "DNS name that client certificates must carry.", {
    defaultShown: "any name",
  }),
  grpcReflection: optional("GRPC_REFLECTION", BOOLEAN, "Answers gRPC server reflection.", {
    defaultShown: "`true`, under COMPATIBILITY_MODE `false`",
  }),
  grpcMaxConnectionAgeMs: setting(
    "GRPC_MAX_CONNECTION_AGE",
    durationMs(0, 365 * DAY_MS),
    1_800_000,
    "Age at which a connection is asked to end, within 10 %, so that callers spread over new processes. 0 is never.",
  ),
  grpcMaxConnectionAgeGraceMs: setting(
    "GRPC_MAX_CONNECTION_AGE_GRACE",
    durationMs(0, DAY_MS),
    60_000,
    "How long calls of such a connection may still take.",
  ),
  httpHost: setting("HOST", HOST_NAME, "0.0.0.0", "Address that the HTTP port listens on."),
  httpPort: setting("PORT", PORT, 8080, "Port of HTTP (`/json`, health, metrics, explain); 0 takes a free one."),
  ...ADMIN_ROWS,
  debugHost: setting("DEBUG_HOST", HOST_NAME, "0.0.0.0", "Address that the debug port listens on."),
  debugPort: optional(
    "DEBUG_PORT",
    PORT,
    "Port of the reference's debug pages (`/rlconfig` and `/stats` in its form); 0 takes a free one. A port that is taken is logged and done without.",
    { defaultShown: "none, under COMPATIBILITY_MODE and with a control plane `6070`" },
  ),
  requestBytesMax: setting(
    "REQUEST_BYTES_MAX",
    wholeNumber(1_024, 67_108_864),
    4_194_304,
    "Longest request by gRPC, in bytes; by HTTP too, but never more than 128 KiB there.",
  ),
  inFlightMax: setting(
    "IN_FLIGHT_MAX",
    wholeNumber(1, 1_000_000),
    10_000,
    "Most calls under way at once; more are answered RESOURCE_EXHAUSTED.",
  ),
  workers: setting(
    "WORKERS",
    wholeNumberOr("auto", 1, WORKERS_MAX),
    1,
    "Processes that share the ports, so that more than one core decides; `auto` is one per core, as far as the container may use them. Needs a store that processes share: with the memory store it stays at one. Bounds such as IN_FLIGHT_MAX hold for each worker by itself.",
  ),
  shutdownDelayMs: setting(
    "SHUTDOWN_DELAY",
    durationMs(0, 3_600_000),
    5_000,
    "How long after SIGTERM calls are still accepted, while readiness already says no.",
  ),
  shutdownGraceMs: setting(
    "SHUTDOWN_GRACE",
    durationMs(0, 3_600_000),
    20_000,
    "How long after that calls under way may take.",
  ),
});
