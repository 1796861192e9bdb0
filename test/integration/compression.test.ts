// Compressed calls on both transports, as many at once as a peer likes: the fast lane unpacks within its bound and refuses the
// rest, grpc-js refuses them all, and neither unpacks a byte that there is no room for.

import zlib, { deflateSync, gzipSync } from "node:zlib";
import { afterEach, describe, expect, test, vi } from "vitest";
import { Flag, FrameType } from "../../src/grpc/transport/fast-lane/protocol.ts";
import { SHOULD_RATE_LIMIT_PATH as PATH } from "../../src/grpc/transport/load-proto.ts";
import { ECHO, type FastLaneRig, startFastLaneRig } from "../support/fast-lane-rig.ts";
import { startTestServer } from "../support/grpc-test-server.ts";
import { callFields, frameOf, type Http2Peer, messageOf, peerOf, wordOf } from "../support/http2-peer.ts";

const WATCH = "/grpc.health.v1.Health/Watch";
const PEERS = 10;
const CALLS_PER_PEER = 100;
/** 4,095 bytes on the wire that unpack to 4 MB. */
const BOMB = gzipSync(Buffer.alloc(4_100_000));

function packedCall(peer: Http2Peer, id: number, encoding: string, packed: Uint8Array, path = PATH): Buffer {
  const message = Buffer.concat([Buffer.from([1]), wordOf(packed.length), packed]);
  return Buffer.concat([
    peer.headers(id, callFields(path, ["grpc-encoding", encoding])),
    frameOf(FrameType.data, Flag.endStream, id, message),
  ]);
}

/** The status of each call of a flood over several connections. */
async function flood(port: number): Promise<ReadonlyMap<string | undefined, number>> {
  const peers = Array.from({ length: PEERS }, () => peerOf(port));
  const ids = Array.from({ length: CALLS_PER_PEER }, (_, i) => 2 * i + 1);
  for (const peer of peers) {
    peer.greet();
    peer.send(frameOf(FrameType.windowUpdate, 0, 0, wordOf(1_000_000_000)));
    peer.send(...ids.map((id) => packedCall(peer, id, "gzip", BOMB)));
  }
  const statuses = new Map<string | undefined, number>();
  for (const peer of peers) {
    for (const id of ids) {
      const { status } = await peer.outcome(id);
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
    }
    peer.close();
  }
  return statuses;
}

describe("on the fast lane", () => {
  let rig: FastLaneRig;
  afterEach(() => rig.stop());

  // Promise(grpc): Compressed messages unpack within their bound, and within 32 MiB for all peers together.
  test("messages that are small on the wire and large behind it are refused when they are too many at once", async () => {
    expect(BOMB.length).toBeLessThan(4_096);
    const gunzip = vi.spyOn(zlib, "createGunzip");
    // A short answer: it is the question that is large.
    const served: number[] = [];
    rig = await startFastLaneRig(
      {
        handle(message, _deadlineUs, reply) {
          served.push(message.length);
          reply.ok(Buffer.alloc(0));
        },
      },
      { maxMessageBytes: 4_194_304 },
    );
    const statuses = await flood(rig.server.port);
    expect((statuses.get("0") ?? 0) + (statuses.get("8") ?? 0)).toBe(PEERS * CALLS_PER_PEER);
    expect(statuses.get("0")).toBe(served.length);
    expect(rig.server.counts.troubles.packed_requests).toBe(statuses.get("8"));
    expect(gunzip).not.toHaveBeenCalled();
    gunzip.mockRestore();
    // There is room again.
    const peer = rig.peer();
    peer.send(packedCall(peer, 1, "gzip", BOMB));
    expect((await peer.outcome(1)).status).toBe("0");
    expect(rig.failures).toEqual([]);
  });

  test.each([
    { encoding: "gzip", pack: (message: Buffer) => gzipSync(message) },
    { encoding: "deflate", pack: (message: Buffer) => deflateSync(message) },
  ])("$encoding messages are answered, a call that is reset meanwhile is not", async ({ encoding, pack }) => {
    rig = await startFastLaneRig(ECHO);
    const peer = rig.peer();
    peer.send(frameOf(FrameType.windowUpdate, 0, 0, wordOf(1_000_000_000)));
    const messages = ["", "a", "x".repeat(50_000)].map((text) => Buffer.from(text));
    for (const [i, message] of messages.entries()) {
      peer.send(packedCall(peer, 4 * i + 1, encoding, pack(message)));
      peer.send(packedCall(peer, 4 * i + 3, encoding, pack(message)));
      peer.send(frameOf(FrameType.rstStream, 0, 4 * i + 3, wordOf(8)));
      // A client that packs has the choice for each message.
      expect((await peer.outcome(4 * i + 1)).body.equals(message)).toBe(true);
    }
    const plain = peer.headers(101, callFields(PATH, ["grpc-encoding", encoding]));
    peer.send(plain, frameOf(FrameType.data, Flag.endStream, 101, messageOf("plain")));
    expect((await peer.outcome(101)).body.toString()).toBe("plain");
    expect(peer.frames.some(({ streamId }) => streamId % 4 === 3)).toBe(false);
    peer.send(packedCall(peer, 103, encoding, Buffer.from("this is no packed message")));
    expect((await peer.outcome(103)).status).toBe("13");
    expect(rig.server.inFlight()).toBe(0);
  });

  test("calls of health and reflection are refused if they are compressed", async () => {
    rig = await startFastLaneRig(ECHO);
    const peer = rig.peer();
    for (const [i, encoding] of ["gzip", "deflate", "brotli"].entries()) {
      peer.send(packedCall(peer, 2 * i + 1, encoding, gzipSync(""), WATCH));
      expect((await peer.outcome(2 * i + 1)).status).toBe("12");
    }
    peer.send(packedCall(peer, 7, "brotli", gzipSync("")));
    expect((await peer.outcome(7)).status).toBe("12");
  });
});

// Promise(grpc): The grpc-js transport rejects compressed messages without unpacking them.
test("by grpc-js compressed calls are refused with what is taken instead, unread", async () => {
  const before = process.env.GRPC_TRANSPORT;
  delete process.env.GRPC_TRANSPORT;
  const gunzip = vi.spyOn(zlib, "createGunzip");
  const { server } = await startTestServer(ECHO, { maxMessageBytes: 4_194_304 });
  if (before !== undefined) process.env.GRPC_TRANSPORT = before;
  expect([...(await flood(server.port))]).toEqual([["12", PEERS * CALLS_PER_PEER]]);
  expect(gunzip).not.toHaveBeenCalled();
  gunzip.mockRestore();
  const peer = peerOf(server.port);
  peer.greet();
  peer.send(packedCall(peer, 1, "gzip", gzipSync("x")), peer.call(3, PATH, "plain"));
  await peer.outcome(1);
  const refused = peer.frames.find(({ type, streamId }) => type === FrameType.headers && streamId === 1);
  expect(refused?.fields.get("grpc-accept-encoding")).toBe("identity");
  expect((await peer.outcome(3)).body.toString()).toBe("plain");
  peer.close();
  await server.drain(0);
});
