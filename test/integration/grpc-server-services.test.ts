// What the gRPC server offers besides the hot method: health, reflection, listening, shutdown.

import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import * as grpc from "@grpc/grpc-js";
import { describe, expect, test } from "vitest";
import { HEALTH_SERVICE, RATE_LIMIT_SERVICE } from "../../src/grpc/transport/load-proto.ts";
import type { GrpcServerOptions } from "../../src/grpc/transport/transport.ts";
import type { UnaryHandler, UnaryReply } from "../../src/grpc/unary.ts";
import { endWithTest } from "../support/ends.ts";
import { callRaw, checkHealth, clientFor, openRawClient, startTestServer } from "../support/grpc-test-server.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";
import { bytesField } from "../support/wire.ts";

const HELLO = Buffer.from("hello");
const echo: UnaryHandler = { handle: (message, _deadlineUs, reply) => reply.ok(message) };

const serve = (options: Partial<GrpcServerOptions> = {}, handler = echo) => startTestServer(handler, options);
const healthClient = (target: string) => clientFor(HEALTH_SERVICE, target);

/** A Watch as the list of what it has said so far, its end included. */
function watch(client: ReturnType<typeof clientFor>, service: string): { heard(count: number): Promise<unknown[]> } {
  const said: unknown[] = [];
  let notify = (): void => undefined;
  const say = (what: unknown): void => {
    said.push(what);
    notify();
  };
  const method = client.Watch as unknown as (request: object) => grpc.ClientReadableStream<{ status: string }>;
  const stream = method.call(client, { service });
  stream.on("data", ({ status }) => say(status));
  stream.on("error", (error: grpc.ServiceError) => say(error.code));
  endWithTest(() => stream.cancel());
  return {
    heard: (count) =>
      new Promise((resolve) => {
        notify = () => (said.length >= count ? resolve([...said]) : undefined);
        notify();
      }),
  };
}

describe("health", () => {
  test.each([{ name: "" }, { name: "ratelimit" }, { name: RATE_LIMIT_SERVICE }])(
    "of '$name' is that of the process",
    async ({ name }) => {
      const { health, target } = await serve();
      expect(await checkHealth(target, name)).toBe("SERVING");
      health.setTrouble("rules", "no rules are loaded");
      expect(await checkHealth(target, name)).toBe("NOT_SERVING");
      health.setTrouble("rules", undefined);
      expect(await checkHealth(target, name)).toBe("SERVING");
    },
  );

  test("of all names is listed", async () => {
    const { target, health } = await serve();
    health.setTrouble("store", "it does not answer");
    const client = healthClient(target);
    const list = new Promise((resolve, reject) => {
      client.List?.({}, (error: unknown, answer: unknown) => (error ? reject(error) : resolve(answer)));
    });
    const status = { status: "NOT_SERVING" };
    expect(await list).toEqual({ statuses: { "": status, ratelimit: status, [RATE_LIMIT_SERVICE]: status } });
  });

  test("watched says what is and then every change", async () => {
    const { target, health } = await serve();
    const watching = watch(healthClient(target), "ratelimit");
    expect(await watching.heard(1)).toEqual(["SERVING"]);
    health.setTrouble("store", "it does not answer");
    expect(await watching.heard(2)).toEqual(["SERVING", "NOT_SERVING"]);
    health.setTrouble("rules", "none");
    health.setTrouble("store", undefined);
    health.setTrouble("rules", undefined);
    expect(await watching.heard(3)).toEqual(["SERVING", "NOT_SERVING", "SERVING"]);
  });

  test("watched of an unknown name is SERVICE_UNKNOWN and the stream stays", async () => {
    const { target, server } = await serve();
    const watching = watch(healthClient(target), "other");
    expect(await watching.heard(1)).toEqual(["SERVICE_UNKNOWN"]);
    const draining = server.drain(1_000);
    expect(await watching.heard(2)).toEqual(["SERVICE_UNKNOWN", grpc.status.UNAVAILABLE]);
    await draining;
  });
});

describe("reflection", () => {
  const LIST_SERVICES = bytesField(7, "*");

  // Reads one answer of the stream as bytes; the names in it are ASCII.
  function reflect(target: string, version: string, request: Buffer): Promise<string> {
    const same = (bytes: Buffer): Buffer => bytes;
    const path = `/grpc.reflection.${version}.ServerReflection/ServerReflectionInfo`;
    const stream = openRawClient(target).makeBidiStreamRequest(path, same, same);
    return new Promise((resolve, reject) => {
      stream.on("data", (bytes: Buffer) => resolve(bytes.toString("latin1")));
      stream.on("error", reject);
      stream.end(request);
    });
  }

  test.each(["v1", "v1alpha"])("%s lists the services", async (version) => {
    const { target } = await serve();
    const answer = await reflect(target, version, LIST_SERVICES);
    expect(answer).toContain(RATE_LIMIT_SERVICE);
    expect(answer).toContain(HEALTH_SERVICE);
  });

  test("describes the service with types named in full", async () => {
    const { target } = await serve();
    const answer = await reflect(target, "v1", bytesField(4, RATE_LIMIT_SERVICE));
    expect(answer).toContain(".envoy.extensions.common.ratelimit.v3.RateLimitDescriptor");
  });

  test.each([
    { asked: "a file by its name", request: bytesField(3, "grpc_health_v1.proto"), answer: "HealthCheckRequest" },
    { asked: "a method", request: bytesField(4, `${HEALTH_SERVICE}.Watch`), answer: "HealthCheckRequest" },
    {
      asked: "a field",
      request: bytesField(4, "grpc.health.v1.HealthCheckRequest.service"),
      answer: "grpc_health_v1.proto",
    },
    {
      asked: "a value of an enum",
      request: bytesField(4, `${RATE_LIMIT_SERVICE.replace("Service", "Response")}.Code.OK`),
      answer: "OVER_LIMIT",
    },
    { asked: "an unknown file", request: bytesField(3, "x.proto"), answer: "Proto file not found: x.proto" },
    {
      asked: "a member of an unknown service",
      request: bytesField(4, `${HEALTH_SERVICE}X.Watch`),
      answer: `Symbol not found: ${HEALTH_SERVICE}X.Watch`,
    },
    { asked: "an unknown symbol", request: bytesField(4, "x"), answer: "Symbol not found: x" },
    {
      asked: "extensions, of which there are none",
      request: bytesField(6, HEALTH_SERVICE),
      answer: "Extension not found",
    },
  ])("answers questions about $asked", async ({ request, answer }) => {
    const { target } = await serve();
    expect(await reflect(target, "v1", request)).toContain(answer);
  });

  test("is UNIMPLEMENTED when it is off", async () => {
    const { target } = await serve({ reflection: false });
    await expect(reflect(target, "v1", LIST_SERVICES)).rejects.toMatchObject({ code: grpc.status.UNIMPLEMENTED });
  });
});

describe("listening", () => {
  test("on a port in use fails with one sentence that names address and settings", async () => {
    const { server } = await serve();
    await expect(startTestServer(echo, { port: server.port })).rejects.toMatchObject({
      code: "CONFIG_SETTINGS",
      message: `gRPC can't listen on 127.0.0.1:${server.port} (GRPC_HOST and GRPC_PORT): the address is in use`,
    });
  });

  test("on an address of another machine fails with one sentence", async () => {
    await expect(startTestServer(echo, { host: "192.0.2.1" })).rejects.toMatchObject({
      message: "gRPC can't listen on 192.0.2.1:0 (GRPC_HOST and GRPC_PORT): this machine has no such address",
    });
  });

  test("works on an IPv6 address", async () => {
    const { server } = await serve({ host: "::1" });
    expect((await callRaw(openRawClient(`[::1]:${server.port}`), HELLO)).code).toBe(grpc.status.OK);
  });
});

describe("listening on a Unix socket", () => {
  function socketPath(): string {
    return join(temporaryFolder("grpc"), "headgate.sock");
  }

  test("takes the place of a process that was killed, and leaves nothing there", async () => {
    const unixSocket = socketPath();
    const script = `require("node:net").createServer().listen(${JSON.stringify(unixSocket)}, () => process.kill(process.pid, 9))`;
    spawnSync(process.execPath, ["-e", script]);
    expect(existsSync(unixSocket)).toBe(true);
    const { server } = await serve({ unixSocket });
    expect(server.port).toBe(0);
    expect((await callRaw(openRawClient(`unix:${unixSocket}`), HELLO)).code).toBe(grpc.status.OK);
    await server.drain(1_000);
    expect(existsSync(unixSocket)).toBe(false);
  });

  // Promise(processes): A process that ends leaves the path of its Unix socket to the next one.
  test("leaves the path to the process that comes after it while its last calls end", async () => {
    const unixSocket = socketPath();
    let held: UnaryReply | undefined;
    const waiting: UnaryHandler = {
      handle: (_message, _deadlineUs, reply) => {
        held = reply;
      },
    };
    const { server } = await serve({ unixSocket }, waiting);
    const running = callRaw(openRawClient(`unix:${unixSocket}`), HELLO);
    await expect.poll(() => held).toBeDefined();
    const drained = server.drain(10_000);
    await serve({ unixSocket });
    held?.ok(HELLO);
    await running;
    await drained;
    expect((await callRaw(openRawClient(`unix:${unixSocket}`), HELLO)).code).toBe(grpc.status.OK);
  });

  test("fails with one sentence when a living process has it, and leaves that one alone", async () => {
    const unixSocket = socketPath();
    await serve({ unixSocket });
    await expect(startTestServer(echo, { unixSocket })).rejects.toMatchObject({
      message: `gRPC can't listen on unix:${unixSocket} (GRPC_UDS): the address is in use`,
    });
    expect((await callRaw(openRawClient(`unix:${unixSocket}`), HELLO)).code).toBe(grpc.status.OK);
  });
});

describe("drain", () => {
  function heldHandler(): { handler: UnaryHandler; reply: Promise<UnaryReply> } {
    let arrived = (_reply: UnaryReply): void => undefined;
    const reply = new Promise<UnaryReply>((resolve) => {
      arrived = resolve;
    });
    return { handler: { handle: (_message, _deadlineUs, given) => arrived(given) }, reply };
  }

  test("lets the running call finish and takes no new connection", async () => {
    const { handler, reply } = heldHandler();
    const { server, target } = await serve({}, handler);
    const running = callRaw(openRawClient(target), HELLO);
    const held = await reply;
    const drained = server.drain(10_000);
    expect((await callRaw(openRawClient(target), HELLO, { deadlineMs: 500 })).code).not.toBe(grpc.status.OK);
    held.ok(HELLO);
    expect((await running).message).toEqual(HELLO);
    await drained;
  });

  test("cuts what is not done at its bound, and a reply after that harms nobody", async () => {
    const { handler, reply } = heldHandler();
    const { server, target, failures } = await serve({}, handler);
    const running = callRaw(openRawClient(target), HELLO);
    const held = await reply;
    await server.drain(50);
    expect((await running).code).not.toBe(grpc.status.OK);
    held.ok(HELLO);
    expect(failures).toEqual([]);
  });

  test("is not held up by a Watch, which hears NOT_SERVING first", async () => {
    const { server, target } = await serve();
    const watching = watch(healthClient(target), "");
    await watching.heard(1);
    const startedAt = performance.now();
    await server.drain(10_000);
    expect(performance.now() - startedAt).toBeLessThan(5_000);
    expect(await watching.heard(3)).toEqual(["SERVING", "NOT_SERVING", grpc.status.UNAVAILABLE]);
  });

  test("waits for the same end when asked twice", async () => {
    const { server } = await serve();
    await Promise.all([server.drain(1_000), server.drain(1_000)]);
    await server.drain(0);
  });
});
