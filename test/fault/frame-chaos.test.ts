// Frames that are each possible, in any order and in pieces, from peers that leave at any moment: neither transport ends by them. An error
// that nobody catches fails the run of this file.

import { connect } from "node:net";
import { setTimeout } from "node:timers/promises";
import fc from "fast-check";
import { expect, test } from "vitest";
import { FrameType, PREFACE } from "../../packages/fast-lane/src/protocol.ts";
import { SHOULD_RATE_LIMIT_PATH as PATH } from "../../src/grpc/transport/load-proto.ts";
import { startFastLaneRig } from "../support/fast-lane-rig.ts";
import { callRaw, openRawClient, startTestServer } from "../support/grpc-test-server.ts";
import { callFields, frameOf, messageOf, plainBlock, settingsOf, wordOf } from "../support/http2-peer.ts";
import { runs, runsMs } from "../support/runs.ts";
import { startService } from "../support/service-process.ts";

const REFLECTION = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
const pathOf = fc.constantFrom(PATH, PATH, "/grpc.health.v1.Health/Watch", REFLECTION, "/x", "");
const more = fc.constantFrom(
  ...[
    ["x-any", "a"],
    ["grpc-encoding", "gzip"],
    ["grpc-timeout", "1n"],
    ["grpc-timeout", "x"],
    ["content-length", "9"],
  ],
  ...[
    ["content-type", "text/plain"],
    [":protocol", "websocket"],
    [":method", "GET"],
    ["expect", "100-continue"],
  ],
);
const blockOf = fc
  .tuple(pathOf, more)
  .map(([path, [name = "", value = ""]]) => plainBlock([...callFields(path), [name, value]]));
const bodyOf = fc.constantFrom(messageOf("hello"), messageOf(""), messageOf("hello").subarray(0, 7), Buffer.alloc(0));
const streamId = fc.constantFrom(0, 1, 1, 2, 3, 5, 7, 99);
const code = fc.constantFrom(0, 1, 2, 5, 7, 8, 11, 99);
/** What a call begins and how its peer takes it back, the likeliest to meet a server halfway. */
const callOf = fc
  .tuple(blockOf, fc.constantFrom(4, 5), fc.option(bodyOf), fc.constantFrom(0, 1), fc.option(code))
  .map(([block, flags, body, end, reset]) => (id: number) => [
    frameOf(FrameType.headers, flags, id, block),
    ...(body === null ? [] : [frameOf(FrameType.data, end, id, body)]),
    ...(reset === null ? [] : [frameOf(FrameType.rstStream, 0, id, wordOf(reset))]),
  ]);
const frame = fc.oneof(
  fc
    .tuple(fc.constantFrom(0, 1, 4, 5, 0xc, 0x24), streamId, blockOf)
    .map(([flags, id, block]) => frameOf(FrameType.headers, flags, id, block)),
  fc
    .tuple(fc.constantFrom(0, 1, 8), streamId, bodyOf)
    .map(([flags, id, body]) => frameOf(FrameType.data, flags, id, body)),
  fc.tuple(streamId, code).map(([id, reset]) => frameOf(FrameType.rstStream, 0, id, wordOf(reset))),
  fc
    .tuple(streamId, fc.constantFrom(0, 1, 0x7fff_ffff))
    .map(([id, size]) => frameOf(FrameType.windowUpdate, 0, id, wordOf(size))),
  fc.tuple(fc.nat(9), fc.constantFrom(0, 1, 65_536, 0x7fff_ffff)).map((pair) => settingsOf(pair)),
  fc.constant(frameOf(FrameType.ping, 0, 0, Buffer.alloc(8))),
  fc.constant(frameOf(FrameType.goaway, 0, 0, Buffer.alloc(8))),
  fc
    .tuple(fc.nat(15), fc.nat(255), streamId, fc.uint8Array({ maxLength: 40 }))
    .map(([type, flags, id, bytes]) => frameOf(type, flags, id, bytes)),
);
const step = fc.oneof({ weight: 2, arbitrary: callOf }, { weight: 1, arbitrary: frame });
const visit = fc.record({
  writes: fc.array(fc.array(step, { minLength: 1, maxLength: 4 }), { maxLength: 8 }),
  cut: fc.nat(200),
  isRead: fc.boolean(),
  leaves: fc.constantFrom("destroy", "end", "resetAndDestroy"),
});

type Visit = typeof visit extends fc.Arbitrary<infer T> ? T : never;

/** Says all this and leaves, without waiting for answers. */
async function pay(port: number, { writes, cut, isRead, leaves }: Visit): Promise<void> {
  const socket = connect(port, "127.0.0.1").on("error", () => undefined);
  const closed = new Promise((resolve) => socket.once("close", resolve));
  if (isRead) socket.resume();
  socket.write(Buffer.concat([PREFACE, settingsOf()]));
  let calls = 0;
  for (const steps of writes) {
    const bytes = Buffer.concat(steps.flatMap((one) => (typeof one === "function" ? one(2 * calls++ + 1) : [one])));
    socket.write(bytes.subarray(0, cut));
    if (cut < bytes.length) socket.write(bytes.subarray(cut));
    await new Promise((resolve) => setImmediate(resolve));
  }
  socket[leaves]();
  // A peer that ended only its side is shown out by the next frame, or never.
  if (leaves === "end") void setTimeout(20).then(() => socket.destroy());
  await closed;
}

const TRANSPORTS = [
  { transport: "the fast lane", start: startFastLaneRig },
  { transport: "grpc-js", start: startTestServer },
];
// Older versions of node:http2 itself end by such frames; docs/reliability.md says so.
const tried = Number.parseInt(process.versions.node, 10) >= 24 ? TRANSPORTS : TRANSPORTS.slice(0, 1);

// Promise(grpc): No peer ends the process, whatever frames it sends and whenever it leaves (grpc-js: on Node 24 or newer).
test.each(tried)(
  "$transport goes on serving after any frames in any order",
  async ({ start }) => {
    const { server } = await start({ handle: (message, _deadlineUs, reply) => setImmediate(() => reply.ok(message)) });
    await fc.assert(
      fc.asyncProperty(fc.array(visit, { minLength: 8, maxLength: 8 }), async (visits) => {
        await Promise.all(visits.map((one) => pay(server.port, one)));
      }),
      { numRuns: runs(150), endOnFailure: true },
    );
    expect(await callRaw(openRawClient(server.port), Buffer.from("hello"))).toMatchObject({ code: 0 });
  },
  runsMs(60_000),
);

// Promise(grpc): A peer that leaves while its answers wait to be written ends nothing but its connection.
test.each(["fast-lane", "grpc-js"])(
  "a process with GRPC_TRANSPORT=%s goes on serving when peers leave with unread answers",
  async (transport) => {
    const service = await startService({ GRPC_TRANSPORT: transport });
    // 4 KB each time: file_containing_symbol of the reflection service.
    const symbol = "envoy.service.ratelimit.v3.RateLimitService";
    const questions = Buffer.concat(
      new Array(100).fill(messageOf(`\x22${String.fromCharCode(symbol.length)}${symbol}`)),
    );
    const ids = Array.from({ length: 20 }, (_, i) => 2 * i + 1);
    const calls = ids.flatMap((id) => [
      frameOf(FrameType.headers, 4, id, plainBlock(callFields(REFLECTION))),
      frameOf(FrameType.data, 0, id, questions),
    ]);
    const windows = [settingsOf([4, 0x7fff_ffff]), frameOf(FrameType.windowUpdate, 0, 0, wordOf(0x7fff_0000))];
    const leave = async (i: number) => {
      const socket = connect(service.grpcPort, "127.0.0.1").on("error", () => undefined);
      const closed = new Promise((resolve) => socket.once("close", resolve));
      socket.pause();
      socket.write(Buffer.concat([PREFACE, ...windows, ...calls]));
      await setTimeout((i * 37) % 150);
      for (const id of ids) socket.write(frameOf(FrameType.rstStream, 0, id, wordOf(8)));
      await setTimeout((i * 7) % 30);
      if (i % 2 === 0) socket.resetAndDestroy();
      else socket.end(() => socket.destroy());
      await closed;
    };
    for (let round = 0; round < runs(40); round++)
      await Promise.all(Array.from({ length: 12 }, (_, i) => leave(round * 12 + i)));
    expect(await callRaw(openRawClient(service.grpcPort), Buffer.alloc(0))).toMatchObject({ code: 3 });
  },
  runsMs(60_000),
);
