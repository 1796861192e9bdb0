// What a look once a second finds overdue on a connection, and what it must leave alone. Time is moved by hand.

import { describe, expect, test } from "vitest";
import type { Bounds } from "../../../../src/transport/fast-lane/bounds.ts";
import type { Connection } from "../../../../src/transport/fast-lane/connection.ts";
import type { Lane } from "../../../../src/transport/fast-lane/lane.ts";
import { ErrorCode, Flag, FrameType } from "../../../../src/transport/fast-lane/protocol.ts";
import { callFields, frameOf, type Http2Peer, messageOf, settingsOf } from "../../../support/http2-peer.ts";
import { connectInMemory, laneInMemory, METHOD } from "../../../support/lane-in-memory.ts";
import { ManualClock } from "../../../support/manual-clock.ts";

interface Rig {
  readonly lane: Lane;
  readonly connection: Connection;
  readonly peer: Http2Peer;
  /** Lets so much time pass, with a look every second. */
  pass(seconds: number, each?: () => void): Promise<void>;
}

async function start(bounds: Partial<Bounds> = {}): Promise<Rig> {
  const clock = new ManualClock();
  const { lane } = laneInMemory({ handle: (message, _deadlineUs, reply) => reply.ok(message) }, { clock, bounds });
  const { connection, peer } = connectInMemory(lane);
  peer.send(settingsOf());
  await peer.seen(FrameType.settings, 0, Flag.ack);
  return {
    lane,
    connection,
    peer,
    async pass(seconds, each = () => undefined) {
      for (let i = 0; i < seconds; i++) {
        each();
        await new Promise((resolve) => setImmediate(resolve));
        clock.advanceSeconds(1);
        connection.life.look(clock.nowUs());
      }
    },
  };
}

const partOf = (peer: Http2Peer, id: number, ...more: [string, string][]): Buffer =>
  Buffer.concat([
    peer.headers(id, callFields(METHOD, ...more)),
    frameOf(FrameType.data, 0, id, messageOf(Buffer.alloc(1_000)).subarray(0, 500)),
  ]);

describe("a look at a connection", () => {
  // Promise(grpc): A busy connection is not closed as stalled.
  test("leaves one alone that is within a frame whenever it is looked at, as long as frames go by", async () => {
    const { connection, peer, pass } = await start({ headerBlockMs: 3_000 });
    let rest: Buffer = Buffer.alloc(0);
    let id = 1;
    await pass(10, () => {
      const call = peer.call(id, METHOD, "hello");
      id += 2;
      peer.send(Buffer.concat([rest, call.subarray(0, 20)]));
      rest = call.subarray(20);
    });
    expect(connection.isWithinFrame).toBe(true);
    expect(peer.isClosed).toBe(false);
    await pass(5);
    expect(connection.lane.counts.troubles.header_timeout).toBe(1);
  });

  test("cuts one whose header block goes on and on, frame by frame", async () => {
    const { connection, peer, pass } = await start({ headerBlockMs: 3_000 });
    peer.send(peer.headers(1, callFields(METHOD), 0));
    await pass(5, () => peer.send(frameOf(FrameType.continuation, 0, 1)));
    expect(connection.lane.counts.troubles.header_timeout).toBe(1);
  });

  // Promise(grpc): A call is answered by its deadline even if its message never comes.
  test("answers a call whose deadline passes before its message has come", async () => {
    const { lane, peer, pass } = await start();
    peer.send(partOf(peer, 1, ["grpc-timeout", "2S"]));
    await pass(4);
    expect((await peer.outcome(1)).status).toBe("4");
    expect(lane.partialBytes).toBe(0);
    peer.send(peer.call(3, METHOD, "still here"));
    expect((await peer.outcome(3)).status).toBe("0");
  });

  test("answers a call without a deadline whose message never comes whole", async () => {
    const { lane, peer, pass } = await start({ stallMs: 5_000 });
    peer.send(partOf(peer, 1), peer.headers(3, callFields(METHOD)));
    await pass(4);
    expect(peer.frames.some(({ streamId }) => streamId === 1)).toBe(false);
    await pass(4);
    expect((await peer.outcome(1)).status).toBe("4");
    expect((await peer.outcome(3)).status).toBe("4");
    expect(lane.partialBytes).toBe(0);
    expect(lane.counts.troubles.partial_requests).toBe(2);
  });
});

test("a connection that is going because of its age goes sooner when the server does", async () => {
  const { connection, peer, pass } = await start();
  peer.answersPings = true;
  peer.send(peer.headers(1, callFields(METHOD)));
  connection.life.drain(60_000);
  await pass(2);
  connection.life.drain(2_000);
  await pass(1);
  expect(connection.isClosed).toBe(false);
  await pass(2);
  expect(connection.isClosed).toBe(true);
});

// Promise(grpc): Streams and incomplete requests are bounded for all peers together.
test("streams are bounded for all connections together, and what has ended makes room", async () => {
  const { lane, peer } = await start({ streamsTotalMax: 50 });
  const other = connectInMemory(lane).peer;
  other.send(settingsOf());
  for (let i = 0; i < 50; i++) peer.send(peer.headers(2 * i + 1, callFields(METHOD)));
  other.send(other.call(1, METHOD, "one too many"));
  expect((await other.seen(FrameType.rstStream, 1)).payload.readUInt32BE()).toBe(ErrorCode.refusedStream);
  peer.close();
  await peer.until(() => peer.isClosed, "the end");
  await new Promise((resolve) => setImmediate(resolve));
  for (let id = 3; id < 203; id += 2) {
    other.send(other.call(id, METHOD, "hello"));
    expect((await other.outcome(id)).status).toBe("0");
  }
  expect(lane.streams).toBe(0);
});

// Promise(grpc): Streams and incomplete requests are bounded for all peers together.
test("parts of requests are bounded for all connections together", async () => {
  const { lane, peer } = await start({ partialBytesTotalMax: 13_000 });
  const other = connectInMemory(lane).peer;
  other.send(settingsOf());
  for (const id of [1, 3, 5]) peer.send(partOf(peer, id));
  other.send(partOf(other, 1));
  expect((await other.outcome(1)).status).toBe("8");
  expect(lane.counts.troubles.partial_requests).toBe(1);
  peer.close();
  other.send(other.call(3, METHOD, "still here"));
  expect((await other.outcome(3)).status).toBe("0");
});
