// Everything at once on one connection: a stream that nobody reads, a health watch, reflection, and unary calls as fast as
// they are answered. The first must cost the others nothing.

import { expect, test } from "vitest";
import { Flag, FrameType, Setting } from "../../packages/fast-lane/src/protocol.ts";
import { SHOULD_RATE_LIMIT_PATH as PATH } from "../../src/grpc/transport/load-proto.ts";
import { type FastLaneRig, startFastLaneRig } from "../support/fast-lane-rig.ts";
import { callFields, frameOf, type Http2Peer, messageOf, type SeenFrame, wordOf } from "../support/http2-peer.ts";

const WATCH = "/grpc.health.v1.Health/Watch";
const REFLECTION = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
const SERVICE_NAME = "envoy.service.ratelimit.v3.RateLimitService";
/** file_containing_symbol: the answer is some kilobytes. */
const QUESTION = messageOf(Buffer.concat([Buffer.from([0x22, SERVICE_NAME.length]), Buffer.from(SERVICE_NAME)]));
const STALLED = 1;
const WATCHED = 3;
const UNDER_WAY = 100;
const CHANGES = 6;

let rig: FastLaneRig;

const framesOf = (peer: Http2Peer, id: number) =>
  peer.frames.filter(({ type, streamId }) => type === FrameType.data && streamId === id);
const bytesOf = (peer: Http2Peer, id: number): number =>
  framesOf(peer, id).reduce((sum, { payload }) => sum + payload.length, 0);

/**
 * Keeps UNDER_WAY unary calls under way, each on a stream of the next number, until told to stop; resolves to how many ended
 * with each status.
 */
function callWithoutPause(
  peer: Http2Peer,
  nextId: () => number,
): () => Promise<ReadonlyMap<string | undefined, number>> {
  const ends = new Map<string | undefined, number>();
  const underWay = new Set<number>();
  let seen = 0;
  let isStopped = false;
  const send = () => {
    const id = nextId();
    underWay.add(id);
    peer.send(peer.call(id, PATH, "hello"));
  };
  const done = new Promise<void>((resolve) => {
    const look = () => {
      for (; seen < peer.frames.length; seen++) {
        const frame = peer.frames[seen];
        if (frame?.type !== FrameType.headers || (frame.flags & Flag.endStream) === 0) continue;
        if (!underWay.delete(frame.streamId)) continue;
        const status = frame.fields.get("grpc-status");
        ends.set(status, (ends.get(status) ?? 0) + 1);
        if (!isStopped) send();
      }
      if (isStopped && underWay.size === 0) resolve();
    };
    peer.duplex.on("data", look);
  });
  for (let i = 0; i < UNDER_WAY; i++) send();
  return async () => {
    isStopped = true;
    await done;
    return ends;
  };
}

// Promise(grpc): A caller that reads no answers of a stream is not read any further.
test("a caller that asks on and reads no answer is heard no further, and gets every answer once it reads", async () => {
  rig = await startFastLaneRig();
  const peer = rig.peer([Setting.initialWindowSize, 0]);
  peer.send(frameOf(FrameType.windowUpdate, 0, 0, wordOf(1_000_000_000)));
  peer.send(peer.headers(STALLED, callFields(REFLECTION)));
  // As much as the window lets through.
  const questions = Math.floor(65_535 / QUESTION.length);
  for (let i = 0; i < questions; i++) peer.send(frameOf(FrameType.data, 0, STALLED, QUESTION));
  await peer.seen(FrameType.headers, STALLED);
  await new Promise((resolve) => setTimeout(resolve, 400)); // what is heard too much comes on later turns
  // Half of the window is given back when half of the questions were heard.
  expect(peer.frames.some(({ type, streamId }) => type === FrameType.windowUpdate && streamId === STALLED)).toBe(false);

  peer.send(frameOf(FrameType.windowUpdate, 0, STALLED, wordOf(1_000_000_000)));
  peer.send(frameOf(FrameType.data, Flag.endStream, STALLED));
  expect((await peer.outcome(STALLED)).status).toBe("0");
  const [first] = framesOf(peer, STALLED);
  expect(bytesOf(peer, STALLED)).toBe(questions * (5 + (first as SeenFrame).payload.readUInt32BE(1)));
});

// Promise(grpc): A stalled stream delays no other.
test("a stalled stream delays neither a watch, nor reflection, nor unary calls at full speed", async () => {
  rig = await startFastLaneRig();
  const peer = rig.peer();
  peer.send(frameOf(FrameType.windowUpdate, 0, 0, wordOf(1_000_000_000)));
  peer.send(peer.headers(STALLED, callFields(REFLECTION)));
  for (let i = 0; i < 60; i++) peer.send(frameOf(FrameType.data, 0, STALLED, QUESTION));
  await peer.until(() => bytesOf(peer, STALLED) === 65_535, "a full window");
  peer.send(peer.call(WATCHED, WATCH, ""));
  await peer.until(() => framesOf(peer, WATCHED).length === 1, "what the watch begins with");

  let lastId = WATCHED;
  const nextId = () => {
    lastId += 2;
    return lastId;
  };
  const stop = callWithoutPause(peer, nextId);
  for (let change = 1; change <= CHANGES; change++) {
    rig.health.setTrouble("store", change % 2 === 1 ? "away" : undefined);
    await peer.until(() => framesOf(peer, WATCHED).length === change + 1, `change ${change} of the watch`);
    const id = nextId();
    peer.send(peer.headers(id, callFields(REFLECTION)), frameOf(FrameType.data, Flag.endStream, id, QUESTION));
    expect((await peer.outcome(id)).status).toBe("0");
  }
  const ends = await stop();

  // Not serving, serving, and so on.
  expect(framesOf(peer, WATCHED).map(({ payload }) => payload.at(-1))).toEqual([1, 2, 1, 2, 1, 2, 1]);
  expect([...ends.keys()]).toEqual(["0"]);
  expect(ends.get("0")).toBeGreaterThan(UNDER_WAY);
  expect(bytesOf(peer, STALLED)).toBe(65_535);
  expect(rig.failures).toEqual([]);
});
