// A gRPC server on a free port with a handler of the test's choice, and clients for it.

import * as grpc from "@grpc/grpc-js";
import { SystemClock } from "../../src/base/clock.ts";
import { HealthState } from "../../src/base/health.ts";
import { startFastLane } from "../../src/grpc/transport/fast-lane.ts";
import { startGrpcServer } from "../../src/grpc/transport/grpc-server.ts";
import { HEALTH_SERVICE, SHOULD_RATE_LIMIT_PATH } from "../../src/grpc/transport/load-proto.ts";
import type { GrpcServer, GrpcServerOptions } from "../../src/grpc/transport/transport.ts";
import type { UnaryHandler } from "../../src/grpc/unary.ts";
import { closedWithTest, endWithTest } from "./ends.ts";
import { loadProto } from "./load-proto.ts";

/** A server under test and what it reported. */
export interface TestServer<Server extends GrpcServer = GrpcServer> {
  readonly server: Server;
  readonly health: HealthState;
  readonly failures: unknown[];
  readonly target: string;
}

/** Starts a server on a free port of the loopback; options not named are harmless. GRPC_TRANSPORT picks the transport. */
export function startTestServer(handler: UnaryHandler, options: Partial<GrpcServerOptions> = {}): Promise<TestServer> {
  const start = process.env.GRPC_TRANSPORT === "fast-lane" ? startFastLane : startGrpcServer;
  return startWith<GrpcServer>(start, handler, options);
}

/** The same by `start`. */
export async function startWith<Server extends GrpcServer>(
  start: (options: GrpcServerOptions) => Promise<Server>,
  handler: UnaryHandler,
  options: Partial<GrpcServerOptions>,
): Promise<TestServer<Server>> {
  const health = options.health ?? new HealthState();
  const failures: unknown[] = [];
  const server = await start({
    host: "127.0.0.1",
    port: 0,
    methods: [{ path: SHOULD_RATE_LIMIT_PATH, handler }],
    clock: new SystemClock(),
    health,
    reflection: true,
    maxConnectionAgeMs: Number.POSITIVE_INFINITY,
    maxConnectionAgeGraceMs: 1_000,
    keepaliveMs: Number.POSITIVE_INFINITY,
    maxConcurrentStreams: 1_024,
    maxMessageBytes: 1_048_576,
    inFlightMax: 10_000,
    observer: {
      handlerFailed: (_path, error) => failures.push(error),
      overloaded: () => undefined,
      unserved: () => undefined,
    },
    ...options,
  });
  endWithTest(() => server.drain(0));
  return { server, health, failures, target: `127.0.0.1:${server.port}` };
}

/** What a call came to: the bytes of an answer, or the error's code and text. */
export interface RawOutcome {
  readonly code: grpc.status;
  readonly details: string;
  readonly message: Buffer | undefined;
}

/** Sends bytes to a unary method of `client` as they are. */
export function callRaw(
  client: grpc.Client,
  message: Buffer,
  { path = SHOULD_RATE_LIMIT_PATH, deadlineMs = 10_000 } = {},
): Promise<RawOutcome> {
  const same = (bytes: Buffer): Buffer => bytes;
  const options = { deadline: Date.now() + deadlineMs };
  return new Promise((resolve) => {
    client.makeUnaryRequest(path, same, same, message, new grpc.Metadata(), options, (error, answer) => {
      if (error === null) resolve({ code: grpc.status.OK, details: "", message: answer });
      else resolve({ code: error.code, details: error.details, message: undefined });
    });
  });
}

/** A client that sends and gets bytes, of a server on this port of the loopback or at this target. */
export function openRawClient(at: number | string): grpc.Client {
  const target = typeof at === "number" ? `127.0.0.1:${at}` : at;
  return closedWithTest(new grpc.Client(target, grpc.credentials.createInsecure()));
}

/** What health says of a name, or the code of the error. */
export function checkHealth(target: string, service: string): Promise<string | grpc.status> {
  const client = clientFor(HEALTH_SERVICE, target);
  return new Promise((resolve) => {
    client.Check?.({ service }, (error, answer) => resolve(error === null ? String(answer?.status) : error.code));
  });
}

/** A method of such a client, as far as tests call it without streams. */
type Unary = (request: object, done: grpc.requestCallback<Readonly<Record<string, unknown>>>) => void;

/** A client for a service of proto/, as grpc-js makes it. */
export function clientFor(service: string, target: string): grpc.Client & Readonly<Record<string, Unary>> {
  const definition = loadProto()[service] as grpc.ServiceDefinition;
  const Client = grpc.makeClientConstructor(definition, service);
  const client = new Client(target, grpc.credentials.createInsecure());
  return closedWithTest(client) as unknown as ReturnType<typeof clientFor>;
}
