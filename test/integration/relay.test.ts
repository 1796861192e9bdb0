// The relay alone: calls of other methods than ShouldRateLimit pass through, and what is too much is refused.

import { once } from "node:events";
import { connect, createServer, type ServerHttp2Stream } from "node:http2";
import { gunzipSync } from "node:zlib";
import * as grpc from "@grpc/grpc-js";
import { credentials, status } from "@grpc/grpc-js";
import { beforeAll, describe, expect, test } from "vitest";
import { SystemClock } from "../../src/engine/base/clock.ts";
import { SHOULD_RATE_LIMIT_PATH } from "../../src/grpc/transport/load-proto.ts";
import { ByteBudget } from "../../src/grpc/transport/relay/byte-budget.ts";
import { Http2Target } from "../../src/grpc/transport/relay/http2-target.ts";
import { type RelayedCall, RelayServer } from "../../src/grpc/transport/relay/relay-server.ts";
import { closedWithTest, endWithTest } from "../support/ends.ts";
import { callRaw, checkHealth, openRawClient, startTestServer, type TestServer } from "../support/grpc-test-server.ts";
import { listen } from "../support/listen.ts";
import { answerBytes, callBytes, requestBytes, until } from "../support/mirror-rig.ts";

const OK = answerBytes({ overall_code: "OK" });

interface Relay {
  readonly server: RelayServer;
  readonly target: Http2Target;
  readonly port: number;
}

async function startRelay(
  authority: string,
  options: {
    readonly messageBytesMax?: number;
    readonly inFlightMax?: number;
    readonly memory?: ByteBudget;
    readonly callMsMax?: number;
    handle?: (call: RelayedCall) => void;
  } = {},
): Promise<Relay> {
  const { messageBytesMax = 65_536, inFlightMax = 100, callMsMax = 30_000 } = options;
  const memory = options.memory ?? new ByteBudget(1_000_000);
  const target = new Http2Target({ authority, messageBytesMax, clock: new SystemClock() });
  const handle = options.handle ?? ((call) => target.send(call.request, {}, (outcome) => call.answer(outcome)));
  const server = new RelayServer({
    host: "127.0.0.1",
    port: 0,
    path: SHOULD_RATE_LIMIT_PATH,
    handle,
    passOn: target,
    messageBytesMax,
    memory,
    inFlightMax,
    callMsMax,
  });
  endWithTest(async () => {
    await server.close(100);
    target.close();
  });
  return { server, target, port: await server.listen() };
}

describe("a relay", () => {
  let behind: TestServer;
  let relay: Relay;
  beforeAll(async () => {
    behind = await startTestServer({ handle: (_message, _deadlineUs, reply) => reply.ok(OK) });
    relay = await startRelay(behind.target);
  });

  test("passes health checks on, and what they say", async () => {
    const check = (service: string) => checkHealth(`127.0.0.1:${relay.port}`, service);
    expect(await check("ratelimit")).toBe("SERVING");
    behind.health.setTrouble("test", "down");
    expect(await check("ratelimit")).toBe("NOT_SERVING");
    behind.health.setTrouble("test", undefined);
    expect(await check("nobody")).toBe(status.NOT_FOUND);
  });

  test.each([
    { what: "passes on that a method is unknown", path: "/no.such.Service/Method", says: "does not implement" },
    { what: "refuses a watch", path: "/grpc.health.v1.Health/Watch", says: "no streams pass" },
    {
      what: "refuses reflection",
      path: "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
      says: "no streams",
    },
  ])("$what", async ({ path, says }) => {
    const { code, details } = await callRaw(openRawClient(relay.port), Buffer.alloc(0), { path });
    expect([code, details]).toEqual([status.UNIMPLEMENTED, expect.stringContaining(says)]);
  });

  test("refuses a message longer than its bound, and serves on", async () => {
    const client = openRawClient(relay.port);
    expect((await callBytes(client, Buffer.alloc(200_000))).code).toBe(status.RESOURCE_EXHAUSTED);
    expect(await callBytes(client, requestBytes({ a: "b" }))).toMatchObject({ code: status.OK, message: OK });
    expect(relay.server.inFlight).toBe(0);
  });
});

test("passes compressed messages on as they are", async () => {
  const requests: RelayedCall["request"][] = [];
  const answer = Buffer.concat([Buffer.from([0, 0, 0, 0, OK.length]), OK]);
  const headers = { ":status": "200", "content-type": "application/grpc" } as const;
  const relay = await startRelay("127.0.0.1:1", {
    handle(call) {
      requests.push(call.request);
      call.answer({ kind: "answer", headers, body: answer, trailers: { "grpc-status": "0" } });
    },
  });
  const compressing = { "grpc.default_compression_algorithm": 2 };
  const client = closedWithTest(new grpc.Client(`127.0.0.1:${relay.port}`, credentials.createInsecure(), compressing));
  const message = requestBytes({ a: "b".repeat(1_000) });
  expect(await callBytes(client, message)).toMatchObject({ code: status.OK });
  const [request] = requests;
  expect(request?.headers["grpc-encoding"]).toBe("gzip");
  expect([request?.body[0], request?.body.readUInt32BE(1)]).toEqual([1, (request?.body.length ?? 0) - 5]);
  expect(gunzipSync(request?.body.subarray(5) ?? "")).toEqual(message);
});

test("turns calls away that are more than it may hold, until others are answered", async () => {
  const waiting: RelayedCall[] = [];
  const relay = await startRelay("127.0.0.1:1", { inFlightMax: 2, handle: (call) => waiting.push(call) });
  const client = openRawClient(relay.port);
  const first = [callBytes(client, requestBytes({ a: "1" })), callBytes(client, requestBytes({ a: "2" }))];
  await until(() => waiting.length === 2);
  expect((await callBytes(client, requestBytes({ a: "3" }))).code).toBe(status.RESOURCE_EXHAUSTED);
  for (const call of waiting) call.answer({ kind: "failure", reason: "broken", message: "the test says so: 1 %" });
  const outcomes = await Promise.all(first);
  expect(outcomes.map(({ code, details }) => [code, details])).toEqual(
    Array(2).fill([status.UNAVAILABLE, "the test says so: 1 %"]),
  );
});

test("holds at most so many bytes of requests, from their first piece until they are answered", async () => {
  const memory = new ByteBudget(20_000);
  const waiting: RelayedCall[] = [];
  const relay = await startRelay("127.0.0.1:1", { memory, handle: (call) => waiting.push(call) });
  const client = openRawClient(relay.port);
  const large = requestBytes({ a: "b".repeat(9_000) });
  const first = [callBytes(client, large), callBytes(client, large)];
  await until(() => waiting.length === 2);
  const refused = await callBytes(client, large);
  expect([refused.code, refused.details]).toEqual([
    status.RESOURCE_EXHAUSTED,
    "calls under way hold more than 20000 bytes",
  ]);
  for (const call of waiting) call.answer({ kind: "failure", reason: "broken", message: "" });
  await Promise.all(first);
  await until(() => memory.held === 0);
  void callBytes(client, large);
  await until(() => waiting.length === 3);
  client.close();
  await relay.server.close(100);
  expect(memory.held).toBe(0);
});

test("loses no call when the target asks its connections to end again and again", async () => {
  const behind = await startTestServer(
    { handle: (_message, _deadlineUs, reply) => reply.ok(OK) },
    { maxConnectionAgeMs: 60, maxConnectionAgeGraceMs: 1_000 },
  );
  const relay = await startRelay(behind.target);
  const client = openRawClient(relay.port);
  const codes = new Map<number, number>();
  const endMs = Date.now() + 800;
  while (Date.now() < endMs) {
    const outcomes = await Promise.all(Array.from({ length: 10 }, () => callBytes(client, requestBytes({ a: "b" }))));
    for (const { code } of outcomes) codes.set(code, (codes.get(code) ?? 0) + 1);
  }
  expect([...codes.keys()]).toEqual([status.OK]);
});

describe("a call that its target does not answer", () => {
  const PLAIN = {
    ":method": "POST",
    ":path": SHOULD_RATE_LIMIT_PATH,
    "content-type": "application/grpc",
    te: "trailers",
  };
  const MESSAGE = Buffer.concat([Buffer.from([0, 0, 0, 0, 2]), Buffer.from([10, 0])]);

  // Promise(mirror): The mirror holds no call past its deadline, or 30 s without one.
  test.each([
    { name: "with a deadline", headers: { "grpc-timeout": "100m" }, ends: true },
    { name: "with a deadline whose request never ends", headers: { "grpc-timeout": "100m" }, ends: false },
    { name: "without a deadline", headers: {}, ends: true },
    { name: "with a deadline of days", headers: { "grpc-timeout": "99999999H" }, ends: true },
    { name: "with a deadline that is none", headers: { "grpc-timeout": "soon" }, ends: false },
  ])("$name ends for its caller and for the target", async ({ headers, ends }) => {
    let gone = 0;
    const relay = await startRelay("127.0.0.1:1", { callMsMax: 200, handle: (call) => call.onEnded(() => gone++) });
    const session = connect(`http://127.0.0.1:${relay.port}`);
    endWithTest(() => session.destroy());
    const stream = session.request({ ...PLAIN, ...headers }, { endStream: false });
    if (ends) stream.end(MESSAGE);
    else stream.write(MESSAGE.subarray(0, 3));
    const [answer] = (await once(stream, "response")) as [Record<string, string>];
    expect(answer["grpc-status"]).toBe(String(status.DEADLINE_EXCEEDED));
    stream.resume();
    if (!stream.closed) await once(stream, "close");
    await until(() => relay.server.inFlight === 0);
    expect(gone).toBe(ends ? 1 : 0);
  });
});

// Promise(mirror): Behind the mirror callers get the answering service's bytes, header lines and trailers, and nothing added.
test("passes header lines on as they came, repeated ones too, and adds none of its own", async () => {
  const requests: string[][] = [];
  const behind = createServer();
  behind.on("stream", (stream: ServerHttp2Stream, _headers: object, _flags: number, raw: string[]) => {
    requests.push(raw);
    stream.resume();
    const answer = { ":status": 200, "content-type": "application/grpc", "x-many": ["1, 2", "3"], "x-one": "a, b" };
    // Types of Node lack `sendDate`.
    stream.respond(answer, { waitForTrailers: true, ...{ sendDate: false } });
    stream.on("wantTrailers", () => stream.sendTrailers({ "grpc-status": "0", "x-tail": ["y", "z, q"] }));
    stream.end(Buffer.concat([Buffer.from([0, 0, 0, 0, OK.length]), OK]));
  });
  const relay = await startRelay(`127.0.0.1:${await listen(behind)}`);
  const session = connect(`http://127.0.0.1:${relay.port}`);
  endWithTest(() => session.destroy());
  for (const path of [SHOULD_RATE_LIMIT_PATH, "/some.Other/Method"]) {
    const asked = {
      ":method": "POST",
      ":path": path,
      "content-type": "application/grpc",
      te: "trailers",
      "x-who": ["me", "you, them"],
      cookie: ["a=1", "b=2"],
    };
    const stream = session.request(asked, { endStream: false });
    const [responded, ended] = [once(stream, "response"), once(stream, "trailers")];
    stream.end(Buffer.alloc(5));
    stream.resume();
    const [, , raw] = (await responded) as [object, number, string[]];
    const [, , rawTail] = (await ended) as [object, number, string[]];
    expect(pairs(raw)).toEqual([
      ":status=200",
      "content-type=application/grpc",
      "x-many=1, 2",
      "x-many=3",
      "x-one=a, b",
    ]);
    expect(pairs(rawTail)).toEqual(["grpc-status=0", "x-tail=y", "x-tail=z, q"]);
    const seen = pairs(requests.at(-1) ?? []);
    expect(seen.filter((line) => !line.startsWith(":"))).toEqual([
      "content-type=application/grpc",
      "te=trailers",
      "x-who=me",
      "x-who=you, them",
      "cookie=a=1",
      "cookie=b=2",
    ]);
  }
});

function pairs(raw: readonly string[]): string[] {
  return raw.flatMap((name, i) => (i % 2 === 0 ? [`${name}=${raw[i + 1]}`] : [])).sort((a, b) => order(a) - order(b));
}

// Pseudo-headers stand first; all else in the order in which it came.
function order(line: string): number {
  return line.startsWith(":") ? 0 : 1;
}
