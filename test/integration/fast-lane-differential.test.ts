// The same calls to the fast lane and to grpc-js, well formed and not: the same statuses, messages and answers.

import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Flag, FrameType } from "../../src/grpc/transport/fast-lane/protocol.ts";
import { SHOULD_RATE_LIMIT_PATH as PATH } from "../../src/grpc/transport/load-proto.ts";
import type { GrpcStatus, UnaryHandler } from "../../src/grpc/unary.ts";
import { type FastLaneRig, startFastLaneRig } from "../support/fast-lane-rig.ts";
import { startTestServer, type TestServer } from "../support/grpc-test-server.ts";
import { callFields, type Field, frameOf, type Http2Peer, messageOf, peerOf, wordOf } from "../support/http2-peer.ts";

/** Answers with what it got, or fails with the status that the first byte names. */
const handler: UnaryHandler = {
  handle(message, _deadlineUs, reply) {
    const status = message[0];
    if (status === undefined || status === 0 || status > 16) reply.ok(message);
    else if (status === 1) throw new Error("fault");
    else reply.fail(status as GrpcStatus, message.toString("utf8", 1));
  },
};

let lane: FastLaneRig;
let grpcJs: TestServer;
beforeAll(async () => {
  lane = await startFastLaneRig(handler, { maxMessageBytes: 100_000 });
  grpcJs = await startTestServer(handler, { maxMessageBytes: 100_000 });
});
afterAll(async () => {
  await lane.stop();
  await grpcJs.server.drain(0);
});

interface Outcome {
  readonly http: string | undefined;
  readonly status: string | undefined;
  readonly message: string;
  readonly body: string;
}

async function outcomeAt(port: number, say: (peer: Http2Peer) => Buffer): Promise<Outcome> {
  const peer = peerOf(port);
  peer.greet();
  peer.send(frameOf(FrameType.windowUpdate, 0, 0, wordOf(10_000_000)), say(peer));
  const first = await peer.seen(FrameType.headers, 1);
  const { status, message, body } = await peer.outcome(1);
  peer.close();
  return {
    http: first.fields.get(":status"),
    status,
    // grpc-js says "OK" of what went well, which means nothing.
    message: status === "0" ? "" : decodeURIComponent(message),
    body: body.toString("latin1"),
  };
}

async function both(say: (peer: Http2Peer) => Buffer): Promise<[lane: Outcome, grpcJs: Outcome]> {
  return Promise.all([outcomeAt(lane.server.port, say), outcomeAt(grpcJs.server.port, say)]);
}

const end = (bytes: Uint8Array): Buffer => frameOf(FrameType.data, Flag.endStream, 1, bytes);
const part = (bytes: Uint8Array): Buffer => frameOf(FrameType.data, 0, 1, bytes);
const withField =
  (...field: Field) =>
  (peer: Http2Peer) =>
    Buffer.concat([peer.headers(1, callFields(PATH, field)), end(messageOf("hello"))]);
const ofBody =
  (...frames: Buffer[]) =>
  (peer: Http2Peer) =>
    Buffer.concat([peer.headers(1, callFields(PATH)), ...frames]);
const failure = (status: number, text: string): Buffer => Buffer.concat([Buffer.from([status]), Buffer.from(text)]);

const CASES: readonly { name: string; say: (peer: Http2Peer) => Buffer }[] = [
  { name: "a plain call", say: (peer) => peer.call(1, PATH, "hello") },
  { name: "an empty message", say: (peer) => peer.call(1, PATH, "") },
  {
    name: "a message in three frames",
    say: ofBody(part(messageOf("hello").subarray(0, 3)), part(messageOf("hello").subarray(3)), end(Buffer.alloc(0))),
  },
  { name: "a message of the largest size", say: ofBody(...inFrames(messageOf(Buffer.alloc(60_000, 0x61)))) },
  {
    name: "trailers after the message",
    say: (peer) =>
      Buffer.concat([
        peer.headers(1, callFields(PATH)),
        part(messageOf("hello")),
        peer.headers(1, [["x-trailer", "1"]], Flag.endHeaders | Flag.endStream),
      ]),
  },
  ...[2, 3, 5, 7, 8, 9, 12, 13, 14, 16].map((status) => ({
    name: `status ${status}`,
    say: (peer: Http2Peer) => peer.call(1, PATH, failure(status, `because of ${status}`)),
  })),
  {
    name: "a message of a status outside ASCII",
    say: (peer) => peer.call(1, PATH, failure(3, "100 % gr\u00f6\u00dfer\r\nals \u9375 \u{1f600}")),
  },
  { name: "a status without a message", say: (peer) => peer.call(1, PATH, failure(3, "")) },
  { name: "a handler that throws", say: (peer) => peer.call(1, PATH, failure(1, "")) },
  { name: "a deadline far away", say: withField("grpc-timeout", "10S") },
  { name: "a deadline in the largest unit", say: withField("grpc-timeout", "99999999H") },
  { name: "a deadline that is none", say: withField("grpc-timeout", "soon") },
  ...["10S,5S", "5S,10S", "soon,5S", "5S,soon"].map((deadlines) => ({
    name: `two deadlines, ${deadlines}`,
    say: (peer: Http2Peer) => {
      const fields = deadlines.split(",").map((deadline): Field => ["grpc-timeout", deadline]);
      return Buffer.concat([peer.headers(1, callFields(PATH, ...fields)), end(messageOf("hello"))]);
    },
  })),
  { name: "no compression, said", say: withField("grpc-encoding", "identity") },
  ...["gzip", "deflate", "brotli"].map((encoding) => ({
    name: `a message that may be compressed by ${encoding}`,
    say: withField("grpc-encoding", encoding),
  })),
  { name: "metadata, binary too", say: withField("trace-bin", "AAEC") },
  {
    name: "a subtype of the content",
    say: (peer) =>
      Buffer.concat([
        peer.headers(
          1,
          callFields(PATH).map(([k, v]) => [k, k === "content-type" ? "application/grpc+proto" : v]),
        ),
        end(messageOf("hello")),
      ]),
  },
  { name: "a method that does not exist", say: (peer) => peer.call(1, "/no.Such/Method", "hello") },
  { name: "a method of a service that exists", say: (peer) => peer.call(1, `${PATH}Again`, "hello") },
  {
    name: "a message that is too long",
    say: ofBody(part(Buffer.concat([Buffer.from([0]), wordOf(100_001)])), end(Buffer.alloc(10))),
  },
  { name: "a health check", say: (peer) => peer.call(1, "/grpc.health.v1.Health/Check", "") },
  { name: "a health check by name", say: (peer) => peer.call(1, "/grpc.health.v1.Health/Check", "\n\tratelimit") },
  {
    name: "a health check of a name that means nothing",
    say: (peer) => peer.call(1, "/grpc.health.v1.Health/Check", "\n\x01x"),
  },
];

function inFrames(bytes: Buffer): Buffer[] {
  const frames: Buffer[] = [];
  for (let at = 0; at < bytes.length; at += 16_384) {
    const piece = bytes.subarray(at, at + 16_384);
    frames.push(at + 16_384 < bytes.length ? part(piece) : end(piece));
  }
  return frames;
}

// Promise(grpc): A call, valid or not, is answered as grpc-js answers it.
describe("the fast lane answers as grpc-js does", () => {
  test.each(CASES)("$name", async ({ say }) => {
    const [ours, theirs] = await both(say);
    expect(ours).toEqual(theirs);
  });

  // The words differ, because ours fit a unary method; or the code, where the specification asks for another.
  test.each([
    { name: "no message at all", say: ofBody(end(Buffer.alloc(0))), status: "12" },
    { name: "a second message", say: ofBody(end(Buffer.concat([messageOf("a"), messageOf("b")]))), status: "12" },
  ])("but for the words: $name", async ({ say, status }) => {
    const [ours, theirs] = await both(say);
    expect([ours.status, theirs.status]).toEqual([status, status]);
  });

  test("and what is no gRPC with the same HTTP status", async () => {
    const say = (peer: Http2Peer) => {
      const fields = callFields(PATH).map(
        ([name, value]): Field => [name, name === "content-type" ? "text/html" : value],
      );
      return peer.headers(1, fields, Flag.endHeaders | Flag.endStream);
    };
    for (const port of [lane.server.port, grpcJs.server.port]) {
      const peer = peerOf(port);
      peer.greet();
      peer.send(say(peer));
      expect((await peer.seen(FrameType.headers, 1)).fields.get(":status")).toBe("415");
      peer.close();
    }
  });
});
