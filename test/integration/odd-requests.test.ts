// Calls and odd requests, generated from the parts of a call, on both transports: answers and refusals are the same, and what differs is
// named with its reason.

import zlib, { gzipSync } from "node:zlib";
import { beforeAll, describe, expect, test, vi } from "vitest";
import { ErrorCode, Flag, FrameType } from "../../packages/fast-lane/src/protocol.ts";
import { SHOULD_RATE_LIMIT_PATH as PATH } from "../../src/grpc/transport/load-proto.ts";
import type { GrpcStatus, UnaryHandler } from "../../src/grpc/unary.ts";
import { type FastLaneRig, startFastLaneRig } from "../support/fast-lane-rig.ts";
import { startTestServer, type TestServer } from "../support/grpc-test-server.ts";
import { callFields, type Field, frameOf, messageOf, peerOf, plainBlock, wordOf } from "../support/http2-peer.ts";

const MESSAGE = messageOf("hello");
const HEALTH = "/grpc.health.v1.Health/Check";

/** Answers with what it got, or fails with the status that the first byte names. */
const handler: UnaryHandler = {
  handle(message, _deadlineUs, reply) {
    const status = message[0];
    if (status === undefined || status === 0 || status > 16) reply.ok(message);
    else if (status === 1) throw new Error("fault");
    else reply.fail(status as GrpcStatus, message.toString("utf8", 1));
  },
};

/** The fields of a call with those of `changed` in place of its own of that name; undefined leaves one out. */
function fieldsWith(name: string, ...values: readonly string[]): Field[] {
  const fields = callFields(PATH);
  const at = fields.findIndex(([known]) => known === name);
  const changed = values.map((value): Field => [name, value]);
  if (at < 0) return [...fields, ...changed];
  return fields.toSpliced(at, 1, ...changed);
}

type Values = Readonly<Record<string, readonly (readonly string[])[]>>;

/** By name, what is sent in its place: [] nothing, and two values as two fields. */
const REFUSED_FIELDS: Values = {
  ":method": [[], ["GET"], ["PUT"], ["HEAD"], ["OPTIONS"], ["post"], [""], ["POST", "POST"], ["CONNECT"]],
  ":scheme": [[], [""], ["http", "http"]],
  ":path": [
    ...[[], [""], ["*"], [PATH.slice(1)], [`${PATH}/`], [`${PATH}?a=b`], [`${PATH}#a`], [PATH.toUpperCase()]],
    ...[[PATH, PATH], [`/${PATH}`], [PATH.replace("S", "%53")]],
  ],
  ":authority": [[], [""], ["test", "test"]],
  host: [
    ["test", "test"],
    ["test", "other"],
  ],
  ":status": [["200"]],
  ":protocol": [["websocket"]],
  ":any": [[""]],
  "content-type": [
    ...[[], [""], ["application/grpcx"], ["application/grpc-web"], ["Application/gRPC"], ["text/plain"]],
    ...[["application/json"], ["text/plain", "application/grpc"]],
  ],
  te: [["gzip"], ["trailers, gzip"], [""]],
  "grpc-timeout": [
    ...["", "1", "S", "1X", "-1S", "+1S", "1.5S", "1 S", "1s", "123456789S", "1e3S", "0x1S"].map((one) => [one]),
    ...[["0S"], ["0n"], ["1n"], ["10S", "10S"]],
  ],
  "grpc-encoding": [
    ...[["Identity"], ["gzip"], ["deflate"], ["br"], [""], ["gzip, identity"]],
    ...[
      ["identity", "identity"],
      ["gzip", "gzip"],
      ["identity", "gzip"],
    ],
  ],
  "content-length": [
    ...["11", "", "-1", "+10", "10.0", "0x0a", "ten", "99999999999999999999"].map((one) => [one]),
    ...[
      ["10", "10"],
      ["10", "11"],
    ],
  ],
  connection: [["close"], [""]],
  "keep-alive": [["timeout=5"]],
  "proxy-connection": [["close"]],
  "transfer-encoding": [["chunked"], ["identity"]],
  upgrade: [["h2c"]],
  "X-Any": [["a"]],
};

/** Usual, or odd in what nothing reads. */
const SERVED_FIELDS: Values = {
  ":scheme": [["https"], ["ftp"]],
  "content-type": [
    ...["", "+proto", "+json", ";charset=utf-8", "; a=b"].map((more) => [`application/grpc${more}`]),
    ["application/grpc", "text/plain"],
  ],
  te: [[], ["trailers"], ["Trailers"], ["trailers", "trailers"]],
  "grpc-timeout": [["99999999S"], ["99999999H"]],
  "grpc-encoding": [["identity"]],
  "grpc-accept-encoding": [["gzip"], [""], ["nonsense"]],
  "grpc-status": [["5"]],
  "grpc-message": [["x"]],
  "accept-encoding": [["gzip"]],
  "content-length": [["10"], ["010"]],
  "http2-settings": [["AAMAAABkAAQAAP__"]],
  expect: [["100-continue"]],
  host: [["test"], ["other"]],
  cookie: [["a=b", "c=d"]],
  "x-any": [
    ...["", "\t", " a", "a ", "a\tb", "a\0b", "a\rb", "a\nb", "a\r\nb: c", "\x01", "\x7f", "\x80", "\xff"].map(
      (one) => [one],
    ),
    ["a", "b"],
  ],
  "x-any-bin": [["AAEC"], ["AAECAw=="], ["%%%"], ["A"], [""]],
  x_any: [["a"]],
  "x|any": [["a"]],
  traceparent: [["nonsense"], ["a", "b"]],
};

const isNode24 = Number.parseInt(process.versions.node, 10) >= 24;

/** What the transports answer differently, by the reason, which docs/architecture.md has, too. */
const DIFFERENT: readonly { why: string; fields: Values; fastLane: string; grpcJs: string }[] = [
  {
    why: "node:http2 drops fields with invalid names before grpc-js sees them",
    fields: Object.fromEntries(
      ["x any", "x:any", "x\0any", "x\nany", "x(any", "x/any", "x@any", "x\x7fany", "x\xe4any", ""].map((name) => [
        name,
        [["a"]],
      ]),
    ),
    fastLane: "reset 1",
    grpcJs: "answer hello",
  },
  {
    why: "node:http2 drops blanks before values, that of a length too, up to Node 22",
    fields: { "content-length": [[" 10"]] },
    fastLane: "reset 1",
    grpcJs: isNode24 ? "reset 1" : "answer hello",
  },
  {
    why: "node:http2 ends the connection for a body above its length since Node 24",
    fields: { "content-length": [["9"], ["0"]] },
    fastLane: "reset 1",
    grpcJs: isNode24 ? "goaway 2" : "reset 1",
  },
  {
    why: "node:http2 drops blanks before values",
    fields: { "grpc-timeout": [[" 1S"]] },
    fastLane: "status 13",
    grpcJs: "answer hello",
  },
  {
    why: "nothing reads an authority, so the fast lane takes any, and grpc-js printable ones",
    fields: { ":authority": [["a b"], ["a\tb"], ["\xe4|"]] },
    fastLane: "answer hello",
    grpcJs: "reset 1",
  },
  {
    why: "node:http2 takes 128 fields at most",
    fields: { "x-any": [Array<string>(128).fill("a")] },
    fastLane: "answer hello",
    grpcJs: "reset 11",
  },
];

const NOTHING = Buffer.alloc(0);
const bodiesOf = (
  numbers: readonly number[],
  body: (n: number) => [name: string, bytes: Buffer],
): Record<string, Buffer> => Object.fromEntries(numbers.map(body));
const data = (bytes: Uint8Array, flags: number = Flag.endStream): Buffer => frameOf(FrameType.data, flags, 1, bytes);
const flagged = (flag: number): Buffer => Buffer.concat([Buffer.from([flag]), MESSAGE.subarray(1)]);
const trailers = (fields: Field[], flags: number = Flag.endHeaders | Flag.endStream): Buffer =>
  frameOf(FrameType.headers, flags, 1, plainBlock(fields));
const whole = data(MESSAGE, 0);
const packed = gzipSync("hello");

const REFUSED_BODIES: Readonly<Record<string, Buffer>> = {
  "no message": data(Buffer.alloc(0)),
  ...bodiesOf([1, 4, 5, 9], (n) => [`the first ${n} bytes of a message`, data(MESSAGE.subarray(0, n))]),
  ...bodiesOf([1, 2, 3, 0x7f, 0x80, 0x81, 0xff], (n) => [`a message with flags ${n}`, data(flagged(n))]),
  ...bodiesOf([2, 0x80], (n) => [`no message, flags ${n}`, data(flagged(n).subarray(0, 1))]),
  ...bodiesOf([4, 6, 100_001, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff], (n) => [
    `a message of 5 bytes that says ${n}`,
    data(Buffer.concat([Buffer.from([0]), wordOf(n), Buffer.from("hello")])),
  ]),
  ...bodiesOf([1, 4, 5], (n) => [`${n} bytes of 0 after a message`, data(Buffer.concat([MESSAGE, Buffer.alloc(n)]))]),
  "a byte of 255 after a message": data(Buffer.concat([MESSAGE, Buffer.from([255])])),
  "a byte after a message, in a frame of its own": Buffer.concat([whole, data(Buffer.from([0]))]),
  "two messages": data(Buffer.concat([MESSAGE, MESSAGE])),
  "two messages in two frames": Buffer.concat([whole, data(MESSAGE)]),
  "a message and the first bytes of another": Buffer.concat([whole, data(MESSAGE.subarray(0, 7))]),
  "a gzip message, unsaid": data(Buffer.concat([Buffer.from([1]), wordOf(packed.length), packed])),
  "no message but trailers": trailers([["x-any", "a"]]),
  "trailers with a pseudo-header": Buffer.concat([whole, trailers([[":path", "/"]])]),
  "trailers with a connection field": Buffer.concat([whole, trailers([["connection", "close"]])]),
  "trailers with an upper-case name": Buffer.concat([whole, trailers([["X-Any", "a"]])]),
  "trailers with a length that is wrong": Buffer.concat([whole, trailers([["content-length", "9"]])]),
  "trailers that do not end the stream": Buffer.concat([whole, trailers([["x-any", "a"]], Flag.endHeaders)]),
};

const SERVED_BODIES: Readonly<Record<string, Buffer>> = {
  "a message in single bytes": Buffer.concat(
    Array.from(MESSAGE, (byte, i) => data(Buffer.from([byte]), i === MESSAGE.length - 1 ? Flag.endStream : 0)),
  ),
  "empty frames before, within and after": Buffer.concat([
    data(NOTHING, 0),
    data(MESSAGE.subarray(0, 2), 0),
    data(NOTHING, 0),
    data(MESSAGE.subarray(2), 0),
    data(NOTHING),
  ]),
  padding: frameOf(
    FrameType.data,
    Flag.endStream | Flag.padded,
    1,
    Buffer.concat([Buffer.from([7]), MESSAGE, Buffer.alloc(7)]),
  ),
  trailers: Buffer.concat([whole, trailers([["x-any", "a"]])]),
  "empty trailers": Buffer.concat([whole, trailers([])]),
  "trailers with a NUL": Buffer.concat([whole, trailers([["x-any", "a\0"]])]),
};

const RESET = frameOf(FrameType.rstStream, 0, 1, wordOf(ErrorCode.internalError));
const headersOf = (fields: readonly Field[], flags: number = Flag.endHeaders): Buffer =>
  frameOf(FrameType.headers, flags, 1, plainBlock(fields));
const [firstField, ...otherFields] = callFields(PATH) as [Field, ...Field[]];

interface Case {
  readonly name: string;
  readonly bytes: Buffer;
}

const casesOf = (fields: Values, bodies: Readonly<Record<string, Buffer>> = {}): readonly Case[] => [
  ...Object.entries(fields).flatMap(([name, all]) =>
    all.map((values) => ({
      name: `${JSON.stringify(name)}: ${JSON.stringify(values).slice(0, 80)}`,
      bytes: Buffer.concat([headersOf(fieldsWith(name, ...values)), data(MESSAGE)]),
    })),
  ),
  ...Object.entries(bodies).map(([name, body]) => ({
    name,
    bytes: Buffer.concat([headersOf(callFields(PATH)), body]),
  })),
];

const REFUSED: readonly Case[] = [
  ...casesOf(REFUSED_FIELDS, REFUSED_BODIES),
  {
    name: "a pseudo-header after other fields",
    bytes: Buffer.concat([headersOf([...otherFields, firstField]), data(MESSAGE)]),
  },
  { name: "headers that end the stream", bytes: headersOf(callFields(PATH), Flag.endHeaders | Flag.endStream) },
];

const AUTHORITIES = [
  ...["a@b", "a_b.c:8081", "[::1]:8081", "outbound|8081||headgate.ns.svc.cluster.local", "outbound|8081|v1|a_b"],
  ...["extension/headgate/ratelimit", '"#/<>?\\^`{|}', `|${"a".repeat(100)}`],
];
const SERVED: readonly Case[] = [
  ...casesOf({ ...SERVED_FIELDS, ":authority": AUTHORITIES.map((one) => [one]) }, SERVED_BODIES),
  ...AUTHORITIES.map((one) => ({
    name: `the host ${one} in place of an authority`,
    bytes: Buffer.concat([headersOf([...fieldsWith(":authority"), ["host", one]]), data(MESSAGE)]),
  })),
];

let fastLane: FastLaneRig;
let grpcJs: TestServer;
beforeAll(async () => {
  fastLane = await startFastLaneRig(handler, { maxMessageBytes: 100_000 });
  grpcJs = await startTestServer(handler, { maxMessageBytes: 100_000 });
});

/** How the stream, or else the connection, ended. */
async function outcomeAt(port: number, bytes: Buffer): Promise<string> {
  const peer = peerOf(port);
  peer.greet();
  peer.send(bytes);
  const { frames } = peer;
  const endOf = () =>
    frames.find(
      ({ type, flags, streamId }) =>
        streamId === 1 &&
        (type === FrameType.rstStream || (type !== FrameType.windowUpdate && (flags & Flag.endStream) !== 0)),
    );
  const goawayOf = () => frames.find(({ type }) => type === FrameType.goaway);
  await peer.until(() => (endOf() ?? goawayOf()) !== undefined || peer.isClosed, "an end");
  peer.close();
  const end = endOf();
  if (end === undefined) return `goaway ${goawayOf()?.payload.readUInt32BE(4)}`;
  if (end.type === FrameType.rstStream) return `reset ${end.payload.readUInt32BE()}`;
  const http = frames.find(({ type, streamId }) => type === FrameType.headers && streamId === 1)?.fields.get(":status");
  if (http !== "200") return `http ${http}`;
  const body = frames.filter(({ type, streamId }) => type === FrameType.data && streamId === 1);
  const status = end.fields.get("grpc-status");
  return status === "0"
    ? `answer ${Buffer.concat(body.map(({ payload }) => payload)).toString("latin1", 5)}`
    : `status ${status}`;
}

const failing = (status: number, text: string): Buffer => Buffer.from(String.fromCharCode(status) + text);

/** What callers send in good form, and how it is answered word for word. */
const ANSWERED: readonly { name: string; path?: string; message?: string | Buffer; status: string }[] = [
  { name: "a plain call", message: "hello", status: "0" },
  { name: "a message of four frames", message: Buffer.alloc(60_000, 0x61), status: "0" },
  ...[2, 3, 5, 7, 8, 9, 12, 13, 14, 16].map((status) => ({
    name: `status ${status}`,
    message: failing(status, `because of ${status}`),
    status: String(status),
  })),
  {
    name: "a status in words outside ASCII",
    message: failing(3, "100 % gr\u00f6\u00dfer\r\nals \u9375 \u{1f600}"),
    status: "3",
  },
  { name: "a status without words", message: failing(3, ""), status: "3" },
  { name: "a handler that throws", message: failing(1, ""), status: "13" },
  { name: "a method that does not exist", path: "/no.Such/Method", status: "12" },
  { name: "a method of a service that exists", path: `${PATH}Again`, status: "12" },
  { name: "a health check", path: HEALTH, status: "0" },
  { name: "a health check by name", path: HEALTH, message: "\n\tratelimit", status: "0" },
  { name: "a health check of a name that means nothing", path: HEALTH, message: "\n\x01x", status: "5" },
];

async function wordsAt(port: number, path: string, message: string | Buffer): Promise<object> {
  const peer = peerOf(port);
  peer.greet();
  peer.send(frameOf(FrameType.windowUpdate, 0, 0, wordOf(10_000_000)), peer.headers(1, callFields(path)));
  const bytes = messageOf(message);
  for (let at = 0; at < bytes.length; at += 16_384) {
    const isLast = at + 16_384 >= bytes.length;
    peer.send(frameOf(FrameType.data, isLast ? Flag.endStream : 0, 1, bytes.subarray(at, at + 16_384)));
  }
  const outcome = await peer.outcome(1);
  peer.close();
  // grpc-js says "OK" of what went well, which means nothing.
  return { ...outcome, message: outcome.status === "0" ? "" : decodeURIComponent(outcome.message) };
}

// Promise(grpc): A call, valid or not, is answered as grpc-js answers it.
test.each(ANSWERED)("both transports answer $name in the same words", async ({ path = PATH, message = "", status }) => {
  const [ours, theirs] = await Promise.all([fastLane, grpcJs].map(({ server }) => wordsAt(server.port, path, message)));
  expect(ours).toEqual(theirs);
  expect(ours).toMatchObject({ status });
});

const bothAt = (bytes: Buffer): Promise<[string, string]> =>
  Promise.all([outcomeAt(fastLane.server.port, bytes), outcomeAt(grpcJs.server.port, bytes)]);

// Promise(grpc): A mistake in a request is rejected in the same way on both transports.
test.each(REFUSED)("both transports refuse in the same way: $name", async ({ bytes }) => {
  const [ours, theirs] = await bothAt(bytes);
  expect(ours).toBe(theirs);
  expect(ours).not.toMatch(/^answer/);
});

test.each(SERVED)("both transports serve $name", async ({ bytes }) => {
  expect(await bothAt(bytes)).toEqual(["answer hello", "answer hello"]);
});

// An error of a stream that nobody listens to would end the process, and the run of this file.
test.each([
  { name: "at once", parts: (headers: Buffer) => [Buffer.concat([headers, RESET])] },
  { name: "after its answer", parts: (headers: Buffer) => [headers, RESET] },
])("both transports outlive peers that reset a refused stream $name", async ({ parts }) => {
  const headers = Object.entries(REFUSED_FIELDS).flatMap(([name, all]) =>
    all.map((values) => headersOf(fieldsWith(name, ...values))),
  );
  for (const { server } of [fastLane, grpcJs]) {
    for (const bytes of headers) {
      const peer = peerOf(server.port);
      peer.greet();
      for (const [i, part] of parts(bytes).entries()) {
        peer.send(part, frameOf(FrameType.ping, 0, 0, Buffer.alloc(8)));
        const pings = () => peer.frames.filter(({ type }) => type === FrameType.ping).length;
        await peer.until(() => pings() > i || peer.isClosed, "an answer to the ping");
      }
      peer.close();
    }
    expect(await outcomeAt(server.port, Buffer.concat([headersOf(callFields(PATH)), data(MESSAGE)]))).toMatch("hello");
  }
});

// Promise(grpc): Compressed calls are rejected without unpacking a byte.
test("both transports say which encoding they take in place of a compressed call, and unpack none", async () => {
  const gunzip = vi.spyOn(zlib, "createGunzip");
  for (const { server } of [fastLane, grpcJs]) {
    const peer = peerOf(server.port);
    peer.greet();
    const message = Buffer.concat([Buffer.from([1]), wordOf(packed.length), packed]);
    for (const [i, path] of [PATH, "/grpc.health.v1.Health/Watch"].entries()) {
      peer.send(peer.headers(2 * i + 1, callFields(path, ["grpc-encoding", "gzip"])));
      peer.send(frameOf(FrameType.data, Flag.endStream, 2 * i + 1, message));
      const { fields } = await peer.seen(FrameType.headers, 2 * i + 1);
      expect(fields.get("grpc-status")).toBe("12");
      expect(fields.get("grpc-accept-encoding")).toBe("identity");
    }
    peer.close();
  }
  expect(gunzip).not.toHaveBeenCalled();
  gunzip.mockRestore();
});

test("both transports name a deadline that passed before a call was read", async () => {
  for (const { server } of [fastLane, grpcJs]) {
    const peer = peerOf(server.port);
    peer.greet();
    peer.send(peer.call(1, PATH, "hello", ["grpc-timeout", "1n"]));
    const { status, message } = await peer.outcome(1);
    expect([status, decodeURIComponent(message)]).toEqual(["4", expect.stringMatching(/^SERVICE_DEADLINE: /)]);
    peer.close();
  }
});

// Promise(grpc): Calls that get UNIMPLEMENTED (compressed, RLS v2, Lyft's protocol) are reported with their reason.
test.each([
  { transport: "the fast lane", start: startFastLaneRig },
  { transport: "grpc-js", start: startTestServer },
])("$transport reports why a call gets UNIMPLEMENTED", async ({ start }) => {
  const seen: string[][] = [];
  const observer = {
    handlerFailed: () => undefined,
    overloaded: () => undefined,
    unserved: (...report: string[]) => seen.push(report),
  };
  const { server } = await start(handler, { observer });
  const peer = peerOf(server.port);
  peer.greet();
  const cases: [reason: string, path: string, ...more: Field[]][] = [
    ["compressed", PATH, ["grpc-encoding", "gzip"]],
    ["compressed", "/grpc.health.v1.Health/Check", ["grpc-encoding", "br"]],
    ["rls_v2", "/envoy.service.ratelimit.v2.RateLimitService/ShouldRateLimit"],
    ["rls_lyft", "/pb.lyft.ratelimit.RateLimitService/ShouldRateLimit", ["grpc-encoding", "gzip"]],
    ["unknown_method", "/envoy.service.auth.v3.Authorization/Check"],
  ];
  for (const [i, [, path, ...more]] of cases.entries()) {
    peer.send(peer.call(2 * i + 1, path, "hello", ...more));
    expect((await peer.outcome(2 * i + 1)).status).toBe("12");
  }
  peer.send(peer.call(99, PATH, "served"));
  expect((await peer.outcome(99)).status).toBe("0");
  expect(seen).toEqual(cases.map(([reason, path]) => [reason, path]));
});

describe.each(DIFFERENT)("$why:", ({ fields, fastLane: ours, grpcJs: theirs }) => {
  test.each(casesOf(fields))("$name", async ({ bytes }) => {
    expect(await bothAt(bytes)).toEqual([ours, theirs]);
  });
});
