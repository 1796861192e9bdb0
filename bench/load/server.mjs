// One server under load, in a process of its own: `node bench/load/server.mjs KIND` listens on a free port of the loopback
// and prints it. Kinds are the keys of SERVERS. SIGTERM ends it, so that a CPU profile is written.

import { loadPackageDefinition, Server, ServerCredentials } from "@grpc/grpc-js";
import { loadDist } from "./dist.mjs";
import { openService } from "./service.mjs";

const { SystemClock } = await loadDist("core/clock.js");
const { HealthState } = await loadDist("core/health.js");
const { loadProto, SHOULD_RATE_LIMIT_PATH } = await loadDist("transport/load-proto.js");
const { startGrpcServer } = await loadDist("transport/grpc-server.js");
const { startFastLane } = await loadDist("transport/fast-lane/fast-lane-server.js");

/** OK for one descriptor on the wire, so that empty handlers send about as much as the service. */
const OK_ANSWER = Uint8Array.of(0x08, 1, 0x12, 2, 0x08, 1);
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
};

function startYardstick() {
  const server = new Server();
  const { service } = loadPackageDefinition(loadProto()).envoy.service.ratelimit.v3.RateLimitService;
  const answer = { overall_code: "OK", statuses: [{ code: "OK" }] };
  server.addService(service, { ShouldRateLimit: (_call, respond) => respond(null, answer) });
  return new Promise((resolve, reject) => {
    server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, port) =>
      error === null ? resolve(port) : reject(error),
    );
  });
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
    observer: { handlerFailed: (path, error) => console.error(path, error), overloaded: () => undefined },
  });
  return port;
}

const start = SERVERS[process.argv[2]];
if (start === undefined) throw new Error(`expected one of ${Object.keys(SERVERS).join("; ")}, got ${process.argv[2]}`);
process.on("SIGTERM", () => process.exit(0));
process.stdout.write(`${await start()}\n`);
