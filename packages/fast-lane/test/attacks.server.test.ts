// Peers that mean harm, each against its bound: the attacker loses the connection and moves a counter, and everybody
// else is served on.

import { once } from "node:events";
import { connect } from "node:net";
import { connect as connectTls } from "node:tls";
import { beforeEach, describe, expect, test } from "vitest";
import type { FastLaneOptions } from "../../../src/grpc/transport/fast-lane.ts";
import { SHOULD_RATE_LIMIT_PATH as PATH } from "../../../src/grpc/transport/load-proto.ts";
import { TlsFiles } from "../../../src/grpc/transport/tls-files.ts";
import { Authority } from "../../../test/support/certificates.ts";
import { closedWithTest } from "../../../test/support/ends.ts";
import { ECHO, type FastLaneRig, startFastLaneRig } from "../../../test/support/fast-lane-rig.ts";
import {
  callFields,
  frameOf,
  Http2Peer,
  messageOf,
  peerOf,
  settingsOf,
  wordOf,
} from "../../../test/support/http2-peer.ts";
import { ErrorCode, Flag, FrameType, Setting, type Trouble } from "../src/protocol.ts";

let rig: FastLaneRig;
let bystander: Http2Peer;

async function start(options: Partial<FastLaneOptions> = {}, handler = ECHO): Promise<void> {
  rig = await startFastLaneRig(handler, options);
  bystander = rig.peer();
  bystander.answersPings = true;
  bystander.send(bystander.call(1, PATH, "before"));
  expect((await bystander.outcome(1)).status).toBe("0");
}

beforeEach(() => start());

/** The attacker is gone for this reason, and nobody else has noticed. */
async function expectCost(attacker: Http2Peer, trouble: Trouble, code: number | undefined): Promise<void> {
  expect(await attacker.goodbye()).toBe(code);
  expect(rig.server.counts.troubles[trouble]).toBe(1);
  bystander.send(bystander.call(3, PATH, "after"));
  expect((await bystander.outcome(3)).body.toString()).toBe("after");
  expect(rig.failures).toEqual([]);
  expect(rig.server.inFlight()).toBe(0);
}

const times = (count: number, make: (i: number) => Buffer): Buffer =>
  Buffer.concat(Array.from({ length: count }, (_, i) => make(i)));

describe("a flood of frames costs its sender the connection:", () => {
  // Promise(grpc): A flood of frames costs its sender the connection and affects nobody else.
  test("streams that are opened and reset at once", async () => {
    const peer = rig.peer();
    peer.send(
      times(6_000, (i) =>
        Buffer.concat([
          peer.headers(2 * i + 1, callFields(PATH)),
          frameOf(FrameType.rstStream, 0, 2 * i + 1, wordOf(ErrorCode.cancel)),
        ]),
      ),
    );
    await expectCost(peer, "reset_flood", ErrorCode.enhanceYourCalm);
  });

  test("more streams than may be open, again and again", async () => {
    const peer = rig.peer();
    peer.send(times(6_000, (i) => peer.headers(2 * i + 1, callFields(PATH))));
    await expectCost(peer, "stream_flood", ErrorCode.enhanceYourCalm);
    expect(peer.frames.filter((frame) => frame.type === FrameType.rstStream)[0]?.payload).toEqual(
      wordOf(ErrorCode.refusedStream),
    );
  });

  test.each([
    { name: "pings", trouble: "ping_flood", frame: frameOf(FrameType.ping, 0, 0, Buffer.alloc(8)) },
    { name: "settings", trouble: "settings_flood", frame: settingsOf([Setting.initialWindowSize, 65_535]) },
    { name: "acknowledgements of nothing", trouble: "settings_flood", frame: frameOf(FrameType.settings, Flag.ack, 0) },
    { name: "priorities", trouble: "frame_flood", frame: frameOf(FrameType.priority, 0, 1, Buffer.alloc(5)) },
    { name: "unknown frames", trouble: "frame_flood", frame: frameOf(0xfa, 0, 0) },
    {
      name: "window updates of one byte",
      trouble: "frame_flood",
      frame: frameOf(FrameType.windowUpdate, 0, 0, wordOf(1)),
    },
    {
      name: "DATA frames of nothing",
      trouble: "frame_flood",
      isWithinCall: true,
      frame: frameOf(FrameType.data, 0, 1),
    },
    {
      name: "DATA frames of padding alone",
      trouble: "frame_flood",
      isWithinCall: true,
      frame: frameOf(FrameType.data, Flag.padded, 1, Buffer.concat([Buffer.from([255]), Buffer.alloc(255)])),
    },
  ] as const)("$name", async ({ trouble, frame, ...more }) => {
    const peer = rig.peer();
    if ("isWithinCall" in more) peer.send(peer.headers(1, callFields(PATH)));
    peer.send(times(12_000, () => frame));
    await expectCost(peer, trouble, ErrorCode.enhanceYourCalm);
  });

  // Promise(grpc): A flood of frames costs its sender the connection and affects nobody else.
  test("settings that change every stream's window thousands of times in one frame", async () => {
    const peer = rig.peer();
    peer.send(times(1_000, (i) => peer.headers(2 * i + 1, callFields(PATH))));
    const pairs = Array.from({ length: 2_000 }, (_, i) => [Setting.initialWindowSize, i] as const);
    peer.send(settingsOf(...pairs));
    await expectCost(peer, "settings_flood", ErrorCode.enhanceYourCalm);
  });

  test("windows opened by a byte at a time, for an answer that then goes out in crumbs", async () => {
    const peer = rig.peer([Setting.initialWindowSize, 0]);
    peer.send(peer.call(1, PATH, "x".repeat(15_000)));
    peer.send(times(12_000, () => frameOf(FrameType.windowUpdate, 0, 1, wordOf(1))));
    await expectCost(peer, "frame_flood", ErrorCode.enhanceYourCalm);
  });
});

describe("header blocks that want too much cost the connection:", () => {
  test.each([
    { name: "one of endless CONTINUATION frames", count: 1_000, bytes: 0 },
    { name: "one of more bytes than any request has", count: 10, bytes: 16_000 },
  ])("$name", async ({ count, bytes }) => {
    const peer = rig.peer();
    peer.send(peer.headers(1, callFields(PATH), 0));
    peer.send(times(count, () => frameOf(FrameType.continuation, 0, 1, Buffer.alloc(bytes))));
    await expectCost(peer, "header_flood", ErrorCode.enhanceYourCalm);
  });

  test("an HPACK bomb: one large field, named again and again by its index", async () => {
    const peer = rig.peer();
    const field = Buffer.concat([Buffer.from([0x40, 1, 0x78, 0x7f, 0x81, 0x1e]), Buffer.alloc(4_000, 0x61)]);
    peer.send(frameOf(FrameType.headers, Flag.endHeaders, 1, Buffer.concat([field, Buffer.alloc(10_000, 0xbe)])));
    await expectCost(peer, "headers_too_large", ErrorCode.enhanceYourCalm);
  });
});

describe("a peer that stops cooperating loses the connection:", () => {
  test("one that never sends its preface", async () => {
    await start({ bounds: { handshakeMs: 100 } });
    const peer = peerOf(rig.server.port);
    await expectCost(peer, "handshake_timeout", undefined);
  });

  test("one that asks and does not read", async () => {
    await start({ bounds: { stallMs: 500, unreadBytesPause: 65_536 }, maxConcurrentStreams: 1_000 });
    const peer = rig.peer([Setting.initialWindowSize, 0x7fff_ffff]);
    peer.send(frameOf(FrameType.windowUpdate, 0, 0, wordOf(0x7fff_0000)));
    await peer.seen(FrameType.settings, 0, Flag.ack);
    peer.duplex.pause();
    for (let i = 0; i < 1_500; i++) peer.send(peer.call(2 * i + 1, PATH, Buffer.alloc(15_000)));
    await expect.poll(() => rig.server.counts.troubles.stalled).toBe(1);
    peer.duplex.resume();
    await expectCost(peer, "stalled", undefined);
  });

  test("one that asks and opens no window for the answer", async () => {
    await start({ bounds: { stallMs: 500 } });
    const peer = rig.peer([Setting.initialWindowSize, 0]);
    peer.send(peer.call(1, PATH, "never"));
    await expectCost(peer, "stalled", undefined);
  });

  test("one that leaves more unread than is allowed", async () => {
    const replies: (() => void)[] = [];
    const answer = Buffer.alloc(16_000);
    await start(
      { bounds: { unreadBytesMax: 4_000_000 }, maxConcurrentStreams: 4_000 },
      {
        handle: (message, _deadlineUs, reply) => {
          if (message.length === 1) replies.push(() => reply.ok(answer));
          else reply.ok(message);
        },
      },
    );
    const peer = rig.peer([Setting.initialWindowSize, 0x7fff_ffff]);
    peer.send(frameOf(FrameType.windowUpdate, 0, 0, wordOf(0x7fff_0000)));
    await peer.seen(FrameType.settings, 0, Flag.ack);
    peer.send(times(2_000, (i) => peer.call(2 * i + 1, PATH, "x")));
    await expect.poll(() => replies.length).toBe(2_000);
    peer.duplex.pause();
    for (const reply of replies) reply();
    await expect.poll(() => rig.server.counts.troubles.unread_output).toBe(1);
    peer.duplex.resume();
    await expectCost(peer, "unread_output", undefined);
  });

  test("the one that has most unread, when it is too much for all together", async () => {
    await start({ bounds: { unreadBytesTotalMax: 200_000, unreadBytesPause: 250_000 }, maxConcurrentStreams: 1_000 });
    const peer = rig.peer([Setting.initialWindowSize, 0x7fff_ffff]);
    peer.send(frameOf(FrameType.windowUpdate, 0, 0, wordOf(0x7fff_0000)));
    await peer.seen(FrameType.settings, 0, Flag.ack);
    peer.duplex.pause();
    for (let i = 0; i < 1_500; i++) peer.send(peer.call(2 * i + 1, PATH, Buffer.alloc(15_000)));
    await expect.poll(() => rig.server.counts.troubles.unread_output_total).toBe(1);
    peer.duplex.resume();
    await expectCost(peer, "unread_output_total", undefined);
  });

  test("one that is no longer there", async () => {
    await start({ keepaliveMs: 100, bounds: { keepaliveTimeoutMs: 500 } });
    const peer = rig.peer();
    await expectCost(peer, "keepalive_timeout", undefined);
  });
});

describe("windows that are tampered with cost the connection:", () => {
  test.each([
    {
      name: "a window of more than 2^31 - 1",
      frame: frameOf(FrameType.windowUpdate, 0, 0, wordOf(0x7fff_ffff)),
      code: 3,
    },
    { name: "a window update of nothing", frame: frameOf(FrameType.windowUpdate, 0, 0, wordOf(0)), code: 1 },
    {
      name: "an initial window of more than 2^31 - 1",
      frame: settingsOf([Setting.initialWindowSize, 0x8000_0000]),
      code: 3,
    },
    { name: "a frame longer than was agreed", frame: frameOf(FrameType.data, 0, 1, Buffer.alloc(16_385)), code: 6 },
  ])("$name", async ({ frame, code }) => {
    const peer = rig.peer();
    peer.send(frame);
    await expectCost(peer, "protocol_error", code);
  });

  test("more DATA than the window of a stream allows ends that stream", async () => {
    const peer = rig.peer();
    const part = frameOf(FrameType.data, 0, 1, Buffer.alloc(16_384));
    const reflection = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
    peer.send(peer.headers(1, callFields(reflection)), part, part, part, part, part);
    expect((await peer.seen(FrameType.rstStream, 1)).payload).toEqual(wordOf(ErrorCode.flowControlError));
  });
});

describe("what one peer may hold is bounded:", () => {
  test("requests that come only in part are refused when they are too many", async () => {
    await start({ bounds: { partialBytesMax: 100_000 } });
    const peer = rig.peer();
    for (let i = 0; i < 20; i++) {
      const part = messageOf(Buffer.alloc(100_000)).subarray(0, 10_000);
      peer.send(peer.headers(2 * i + 1, callFields(PATH)), frameOf(FrameType.data, 0, 2 * i + 1, part));
    }
    expect((await peer.outcome(39)).status).toBe("8");
    expect(rig.server.counts.troubles.partial_requests).toBeGreaterThan(0);
  });

  test("a handshake that ends after the server has begun to drain opens nothing, and delays nobody", async () => {
    const pair = new Authority().issue("headgate.test");
    const files = { ...pair, clientCaFile: undefined, clientName: undefined };
    const tls = closedWithTest(new TlsFiles(files, { renewed: () => undefined, refused: () => undefined }));
    const secure = await startFastLaneRig(ECHO, { tls });
    const socket = connect(secure.server.port, "127.0.0.1");
    await once(socket, "connect");
    await new Promise((resolve) => setTimeout(resolve, 50)); // until the server has accepted it, which nothing tells
    const startMs = performance.now();
    const drained = secure.server.drain(20_000);
    const peer = new Http2Peer(connectTls({ socket, rejectUnauthorized: false, ALPNProtocols: ["h2"] }));
    peer.greet();
    expect(await peer.goodbye()).toBeUndefined();
    await drained;
    expect(performance.now() - startMs).toBeLessThan(10_000);
  });

  test("connections beyond the bound are closed as they come", async () => {
    await start({ bounds: { connectionsMax: 1 } });
    const peer = rig.peer();
    await expectCost(peer, "too_many_connections", undefined);
  });

  test("streams of no gRPC that are reset at once harm nobody", async () => {
    const peer = rig.peer();
    const requests = [
      callFields("/no.such/Method"),
      callFields(PATH).map(([name, value]) => [name, name === "content-type" ? "text/html" : value] as const),
      callFields("/grpc.health.v1.Health/Watch"),
      callFields("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"),
    ];
    for (const [i, fields] of requests.entries()) {
      const id = 2 * i + 1;
      peer.send(peer.headers(id, fields), frameOf(FrameType.rstStream, 0, id, wordOf(ErrorCode.cancel)));
    }
    peer.send(peer.call(99, PATH, "still here"));
    expect((await peer.outcome(99)).status).toBe("0");
    await new Promise((resolve) => setTimeout(resolve, 50)); // a handler would throw on a later turn
  });
});
