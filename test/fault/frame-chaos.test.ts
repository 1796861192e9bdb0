// Frames that are each possible, in any order and in pieces, from peers that leave at any moment: neither transport ends by them. An error
// that nobody catches fails the run of this file.

import { connect } from "node:net";
import fc from "fast-check";
import { expect, test } from "vitest";
import { FrameType, PREFACE } from "../../packages/fast-lane/src/protocol.ts";
import { SHOULD_RATE_LIMIT_PATH as PATH } from "../../src/grpc/transport/load-proto.ts";
import { startFastLaneRig } from "../support/fast-lane-rig.ts";
import { callRaw, openRawClient, startTestServer } from "../support/grpc-test-server.ts";
import { callFields, frameOf, messageOf, plainBlock, settingsOf, wordOf } from "../support/http2-peer.ts";
import { runs, runsMs } from "../support/runs.ts";

const pathOf = fc.constantFrom(
  PATH,
  PATH,
  "/grpc.health.v1.Health/Watch",
  "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
  "/x",
  "",
);
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
  if (leaves === "end") setTimeout(() => socket.destroy(), 20);
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
