// One server under load, in a process of its own: `node bench/load/server.mjs KIND` listens on a free port of the loopback
// and prints it. Kinds are the keys of SERVERS. SIGTERM ends it, so that a CPU profile is written.

import { readFileSync } from "node:fs";
import { loadPackageDefinition, Server, ServerCredentials } from "@grpc/grpc-js";
import { loadProto } from "../harness/load-proto.mjs";
import { loadDist } from "./dist.mjs";
import { openService } from "./service.mjs";
import { OK_ANSWER, openIncrements, openUpdates } from "./stand-ins.mjs";

const { SystemClock } = await loadDist("base/clock.js");
const { HealthState } = await loadDist("base/health.js");
const { SHOULD_RATE_LIMIT_PATH } = await loadDist("grpc/transport/load-proto.js");
const { startGrpcServer } = await loadDist("grpc/transport/grpc-server.js");
const { startFastLane } = await loadDist("grpc/transport/fast-lane.js");
const { TlsFiles } = await loadDist("grpc/transport/tls-files.js");

/** Sends about as much as the service. */
const EMPTY = { handle: (_message, _deadlineUs, reply) => reply.ok(OK_ANSWER) };

const SERVERS = {
  /** What everything is measured against: grpc-js with proto-loader, and a handler that does nothing. */
  yardstick: startYardstick,
  "empty, grpc-js": () => startTransport(startGrpcServer, EMPTY),
  "empty, fast lane": () => startTransport(startFastLane, EMPTY),
  "memory, grpc-js": async () => startTransport(startGrpcServer, await openService()),
  "memory, fast lane": async () => startTransport(startFastLane, await openService()),
  /** Rules by their name in rules.mjs, and settings (REDIS_URL, ...), from the environment. */
  "service, fast lane": async () =>
    startTransport(startFastLane, await openService(process.env, process.env.BENCH_RULES ?? "hot")),
  /** On the Redis or the cluster whose ports are in the environment; stand-ins.mjs says for whom. */
  increments: async () => startTransport(startFastLane, await openIncrements(portsGiven())),
  /** On the PostgreSQL. */
  updates: async () => startTransport(startFastLane, await openUpdates(...portsGiven())),
};

function portsGiven() {
  return process.env.BENCH_STORE_PORTS.split(",").map(Number);
}

/** Files of certificates as JSON, if the shape speaks TLS: those of makeCertificates, and whether clients show one. */
const tls = process.env.BENCH_TLS === undefined ? undefined : JSON.parse(process.env.BENCH_TLS);

function startYardstick() {
  const server = new Server();
  const { service } = loadPackageDefinition(loadProto()).envoy.service.ratelimit.v3.RateLimitService;
  const answer = { overall_code: "OK", statuses: [{ code: "OK" }] };
  server.addService(service, { ShouldRateLimit: (_call, respond) => respond(null, answer) });
  return new Promise((resolve, reject) => {
    server.bindAsync("127.0.0.1:0", credentialsOf(), (error, port) => (error === null ? resolve(port) : reject(error)));
  });
}

function credentialsOf() {
  if (tls === undefined) return ServerCredentials.createInsecure();
  const [ca, certChain, privateKey] = [tls.caFile, tls.certFile, tls.keyFile].map((file) => readFileSync(file));
  return ServerCredentials.createSsl(
    tls.isMutual ? ca : null,
    [{ cert_chain: certChain, private_key: privateKey }],
    tls.isMutual,
  );
}

function tlsFiles() {
  if (tls === undefined) return undefined;
  const { certFile, keyFile, caFile, isMutual } = tls;
  const names = { certFile, keyFile, clientCaFile: isMutual ? caFile : undefined, clientName: undefined };
  return new TlsFiles(names, { renewed: () => undefined, refused: (why) => console.error(why) });
}

async function startTransport(start, handler) {
  const { port } = await start({
    host: "127.0.0.1",
    port: 0,
    methods: [{ path: SHOULD_RATE_LIMIT_PATH, handler }],
    clock: new SystemClock(),
    health: new HealthState(),
    reflection: false,
    maxConnectionAgeMs: Number.POSITIVE_INFINITY,
    maxConnectionAgeGraceMs: 1_000,
    keepaliveMs: Number.POSITIVE_INFINITY,
    maxConcurrentStreams: 4_096,
    maxMessageBytes: 1_048_576,
    inFlightMax: 10_000,
    tls: tlsFiles(),
    observer: {
      handlerFailed: (path, error) => console.error(path, error),
      overloaded: () => undefined,
      unserved: () => undefined,
    },
  });
  return port;
}

const start = SERVERS[process.argv[2]];
if (start === undefined) throw new Error(`expected one of ${Object.keys(SERVERS).join("; ")}, got ${process.argv[2]}`);
process.on("SIGTERM", () => process.exit(0));
process.stdout.write(`${await start()}\n`);
