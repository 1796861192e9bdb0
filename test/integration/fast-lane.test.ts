// The fast lane over real sockets, frame by frame: windows, header blocks, streams, prefaces, and how
// connections end. What any gRPC server does is in fast-lane-same-suite.test.ts, attacks in attacks.server.test.ts.

import { connect } from "node:net";
import { connect as connectTls } from "node:tls";
import { describe, expect, test } from "vitest";
import { Flag, FrameType, PREFACE, Setting } from "../../packages/fast-lane/src/protocol.ts";
import type { FastLaneOptions } from "../../src/grpc/transport/fast-lane.ts";
import { SHOULD_RATE_LIMIT_PATH as PATH } from "../../src/grpc/transport/load-proto.ts";
import { TlsFiles } from "../../src/grpc/transport/tls-files.ts";
import type { UnaryHandler, UnaryReply } from "../../src/grpc/unary.ts";
import { Authority } from "../support/certificates.ts";
import { closedWithTest } from "../support/ends.ts";
import { ECHO, type FastLaneRig, startFastLaneRig } from "../support/fast-lane-rig.ts";
import { callFields, frameOf, type Http2Peer, messageOf, peerOf, settingsOf, wordOf } from "../support/http2-peer.ts";

const WATCH = "/grpc.health.v1.Health/Watch";

let rig: FastLaneRig;

async function serve(handler: UnaryHandler = ECHO, options: Partial<FastLaneOptions> = {}): Promise<Http2Peer> {
  rig = await startFastLaneRig(handler, options);
  return rig.peer();
}

const dataOf = (peer: Http2Peer, id: number): Buffer =>
  Buffer.concat(peer.frames.filter((f) => f.type === FrameType.data && f.streamId === id).map((f) => f.payload));
const updateOf = (id: number, bytes: number): Buffer => frameOf(FrameType.windowUpdate, 0, id, wordOf(bytes));
const LARGE_MESSAGE = Buffer.alloc(10_000, 0x61);

describe("windows", () => {
  test("change with the peer's settings on streams that are open, below zero too", async () => {
    rig = await startFastLaneRig();
    const peer = rig.peer([Setting.initialWindowSize, 200]);
    peer.send(peer.call(1, PATH, LARGE_MESSAGE));
    await peer.until(() => dataOf(peer, 1).length === 200, "the first 200 bytes");
    peer.send(
      settingsOf([Setting.initialWindowSize, 50]),
      updateOf(1, 100),
      settingsOf([Setting.initialWindowSize, 160]),
    );
    await peer.until(() => dataOf(peer, 1).length === 260, "60 bytes more");
    peer.send(settingsOf([Setting.initialWindowSize, 100_000]));
    expect((await peer.outcome(1)).body.equals(LARGE_MESSAGE)).toBe(true);
  });

  test("of ours are given back, so that requests larger than any of them come through", async () => {
    const peer = await serve(ECHO, { maxMessageBytes: 3_000_000 });
    peer.send(updateOf(0, 10_000_000), settingsOf([Setting.initialWindowSize, 10_000_000]));
    const whole = messageOf(Buffer.alloc(2_500_000, 0x62));
    peer.send(peer.headers(1, callFields(PATH)));
    let allowed = 65_535;
    let sent = 0;
    let seen = 0;
    while (sent < whole.length) {
      const size = Math.min(16_384, allowed, whole.length - sent);
      if (size > 0) {
        const isLast = sent + size === whole.length;
        peer.send(frameOf(FrameType.data, isLast ? Flag.endStream : 0, 1, whole.subarray(sent, sent + size)));
        sent += size;
        allowed -= size;
        continue;
      }
      const updates = () => peer.frames.filter((f) => f.type === FrameType.windowUpdate && f.streamId === 1);
      await peer.until(() => updates().length > seen, "a window update");
      for (const update of updates().slice(seen)) allowed += update.payload.readUInt32BE();
      seen = updates().length;
    }
    expect((await peer.outcome(1)).body.length).toBe(2_500_000);
  });
});

describe("header blocks", () => {
  test("that are spread over frames, padded and with a priority are read as one", async () => {
    const peer = await serve();
    const block = peer.block(callFields(PATH));
    const first = Buffer.concat([Buffer.from([3]), Buffer.alloc(5), block.subarray(0, 10), Buffer.alloc(3)]);
    peer.send(
      frameOf(FrameType.headers, Flag.padded | Flag.priority, 1, first),
      frameOf(FrameType.continuation, 0, 1, block.subarray(10, 20)),
      frameOf(FrameType.continuation, Flag.endHeaders, 1, block.subarray(20)),
      frameOf(
        FrameType.data,
        Flag.endStream | Flag.padded,
        1,
        Buffer.concat([Buffer.from([4]), messageOf("hello"), Buffer.alloc(4)]),
      ),
    );
    expect((await peer.outcome(1)).body.toString()).toBe("hello");
  });

  test("of the same bytes mean something else once the table has moved, remembered or not", async () => {
    const peer = await serve();
    const say = (id: number, block: Buffer) =>
      peer.send(
        frameOf(FrameType.headers, Flag.endHeaders, id, block),
        frameOf(FrameType.data, Flag.endStream, id, messageOf("x")),
      );
    const indexed = (name: number, text: string) =>
      Buffer.concat([Buffer.from([0x40 | name, text.length]), Buffer.from(text)]);
    const CONTENT_TYPE = 31;
    const PATH_NAME = 4;
    const others = Buffer.from("\x83\x86\x01\x04test", "latin1"); // POST, http, an authority
    say(1, Buffer.concat([others, indexed(PATH_NAME, PATH), indexed(CONTENT_TYPE, "application/grpc")]));
    const byIndex = Buffer.concat([others, Buffer.from([0xbf, 0xbe])]);
    for (const id of [3, 5, 7, 9]) {
      say(id, byIndex);
      expect((await peer.outcome(id)).status).toBe("0");
    }
    expect(rig.server.counts.headerBlocksRemembered).toBe(2);
    const moved = Buffer.concat([
      others,
      indexed(PATH_NAME, "/other.Service/Method"),
      indexed(CONTENT_TYPE, "application/grpc"),
    ]);
    say(11, moved);
    say(13, byIndex);
    expect((await peer.outcome(13)).status).toBe("12");
  });

  test("say nothing about the next call", async () => {
    const deadlines: number[] = [];
    const peer = await serve({
      handle(message, deadlineUs, reply) {
        deadlines.push(deadlineUs);
        reply.ok(message);
      },
    });
    peer.send(peer.call(1, PATH, "hello", ["grpc-timeout", "10S"], ["content-length", "10"]));
    peer.send(peer.call(3, PATH, "longer than before"));
    expect((await peer.outcome(3)).status).toBe("0");
    expect(deadlines.map(Number.isFinite)).toEqual([true, false]);
  });

  test("go out without a table to a peer that has none", async () => {
    rig = await startFastLaneRig();
    const peer = rig.peer([Setting.headerTableSize, 0]);
    for (const id of [1, 3, 5]) {
      peer.send(peer.call(id, PATH, "hello"));
      expect((await peer.outcome(id)).status).toBe("0");
    }
  });
});

test("frames that come byte by byte are answered as if they came at once", async () => {
  rig = await startFastLaneRig();
  const peer = peerOf(rig.server.port);
  const bytes = Buffer.concat([PREFACE, settingsOf(), peer.call(1, PATH, "hello"), peer.call(3, PATH, "again")]);
  for (const byte of bytes) {
    peer.send(Buffer.from([byte]));
    await new Promise((resolve) => setImmediate(resolve));
  }
  expect((await peer.outcome(1)).body.toString()).toBe("hello");
  expect((await peer.outcome(3)).body.toString()).toBe("again");
});

describe("calls of health and reflection", () => {
  test("end when they are reset, and at their deadline", async () => {
    const peer = await serve();
    peer.send(peer.call(1, WATCH, ""), peer.call(3, WATCH, "", ["grpc-timeout", "50m"]));
    expect((await peer.outcome(3)).status).toBe("4");
    await peer.until(() => dataOf(peer, 1).length > 0, "the first answer of Watch");
    peer.send(frameOf(FrameType.rstStream, 0, 1, wordOf(8)));
    peer.send(peer.call(5, PATH, "hello"));
    expect((await peer.outcome(5)).status).toBe("0");
    rig.health.setTrouble("store", "away");
    peer.send(peer.call(7, PATH, "hello"));
    await peer.outcome(7);
    expect(dataOf(peer, 1).length).toBe(7);
  });
});

describe("what is no HTTP/2 gets one answer that names the port for HTTP:", () => {
  const answerTo = (bytes: string, secure = false): Promise<string> =>
    new Promise((resolve) => {
      const options = { port: rig.server.port, host: "127.0.0.1", rejectUnauthorized: false };
      const socket = secure ? connectTls(options) : connect(options);
      let heard = "";
      socket.on("data", (chunk) => {
        heard += chunk;
      });
      socket.on("close", () => resolve(heard));
      socket.on("error", () => undefined);
      socket.write(bytes);
    });

  test.each([{ bytes: "GET / HTTP/1.1\r\n\r\n" }, { bytes: "PRI * HTTP/1.1\r\n\r\n" }, { bytes: "\x16\x03\x01" }])(
    "$bytes",
    async ({ bytes }) => {
      rig = await startFastLaneRig(ECHO, { httpPort: 8080 });
      const answer = await answerTo(bytes);
      expect(answer).toMatch(/^HTTP\/1\.1 400 /);
      expect(answer).toContain("8080");
      expect(rig.server.counts.troubles.bad_preface).toBe(1);
    },
  );

  test("TLS without ALPN", async () => {
    const pair = new Authority().issue("headgate.test");
    const files = { ...pair, clientCaFile: undefined, clientName: undefined };
    const tls = closedWithTest(new TlsFiles(files, { renewed: () => undefined, refused: () => undefined }));
    rig = await startFastLaneRig(ECHO, { tls, httpPort: 8080 });
    expect(await answerTo(PREFACE.toString("latin1"), true)).toMatch(/^HTTP\/1\.1 400 /);
  });
});

describe("a connection that has to go", () => {
  const goaways = (peer: Http2Peer) =>
    peer.frames.filter((f) => f.type === FrameType.goaway).map((f) => f.payload.readUInt32BE());

  // Promise(grpc): A closing connection gets GOAWAY twice, and calls sent meanwhile are served.
  test("says so twice, and serves what was sent before it could know", async () => {
    const replies: UnaryReply[] = [];
    const peer = await serve({
      handle: (message, _deadlineUs, reply) => (message.length === 1 ? replies.push(reply) : reply.ok(message)),
    });
    peer.send(peer.call(1, PATH, "x"));
    await expect.poll(() => replies.length).toBe(1);
    const drained = rig.server.drain(5_000);
    const ping = await peer.seen(FrameType.ping, 0);
    expect(goaways(peer)).toEqual([0x7fff_ffff]);
    peer.send(peer.call(3, PATH, "hello"), frameOf(FrameType.ping, Flag.ack, 0, ping.payload));
    expect((await peer.outcome(3)).status).toBe("0");
    await peer.until(() => goaways(peer).length === 2, "the second GOAWAY");
    expect(goaways(peer)[1]).toBe(3);
    peer.send(peer.call(5, PATH, "too late"), frameOf(FrameType.ping, 0, 0, Buffer.from("was read")));
    await peer.seen(FrameType.ping, 0, Flag.ack);
    replies[0]?.ok(Buffer.from("done"));
    expect((await peer.outcome(1)).body.toString()).toBe("done");
    await peer.goodbye();
    expect(peer.frames.some((f) => f.streamId === 5)).toBe(false);
    await drained;
  });

  test("because of its age ends long streams with UNAVAILABLE at half the grace", async () => {
    const peer = await serve(ECHO, { maxConnectionAgeMs: 100, maxConnectionAgeGraceMs: 3_000 });
    peer.answersPings = true;
    peer.send(peer.call(1, WATCH, ""));
    expect((await peer.outcome(1)).status).toBe("14");
    expect(goaways(peer)).toEqual([0x7fff_ffff, 1]);
    expect(await peer.goodbye()).toBe(0);
  });
});

test("a quiet connection is pinged, and lives while it answers", async () => {
  const peer = await serve(ECHO, { keepaliveMs: 100, bounds: { keepaliveTimeoutMs: 1_500 } });
  peer.answersPings = true;
  await peer.until(() => peer.frames.filter((f) => f.type === FrameType.ping).length >= 2, "two pings");
  expect(rig.server.counts.troubles.keepalive_timeout).toBe(0);
  peer.send(peer.call(1, PATH, "hello"));
  expect((await peer.outcome(1)).status).toBe("0");
});
