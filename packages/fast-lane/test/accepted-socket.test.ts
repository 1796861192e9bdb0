// What a look once a second finds overdue on a connection, and what it must leave alone. Time is moved by hand.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { UnaryHandler, UnaryReply } from "../../../src/grpc/unary.ts";
import {
  callFields,
  frameOf,
  type Http2Peer,
  messageOf,
  plainBlock,
  settingsOf,
} from "../../../test/support/http2-peer.ts";
import { ManualClock } from "../../../test/support/manual-clock.ts";
import { runs } from "../../../test/support/runs.ts";
import { connectInMemory, METHOD, serverInMemory } from "../../../test/support/server-in-memory.ts";
import type { Bounds } from "../src/bounds.ts";
import type { Connection } from "../src/connection.ts";
import type { Http2Server } from "../src/http2-server.ts";
import { ErrorCode, Flag, FrameType, Setting } from "../src/protocol.ts";

interface Rig {
  readonly server: Http2Server;
  readonly connection: Connection;
  readonly peer: Http2Peer;
  readonly clock: ManualClock;
  /** Lets so much time pass, with a look every second. */
  pass(seconds: number, each?: () => void): Promise<void>;
}

/** Lets answers of any number through. */
const WIDE = frameOf(FrameType.windowUpdate, 0, 0, Buffer.from([0x7f, 0xff, 0, 0]));
const ECHO: UnaryHandler = { handle: (message, _deadlineUs, reply) => reply.ok(message) };

async function start(bounds: Partial<Bounds> = {}, handler = ECHO): Promise<Rig> {
  const clock = new ManualClock();
  const { server } = serverInMemory(handler, { clock, bounds });
  const { connection, accepted, peer } = connectInMemory(server);
  peer.send(settingsOf());
  await peer.seen(FrameType.settings, 0, Flag.ack);
  return {
    server,
    connection,
    peer,
    clock,
    async pass(seconds, each = () => undefined) {
      for (let i = 0; i < seconds; i++) {
        each();
        await new Promise((resolve) => setImmediate(resolve));
        clock.advanceSeconds(1);
        accepted.look(clock.nowUs(), 1);
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
    expect(peer.isClosed).toBe(false);
    await pass(5);
    expect(connection.server.counts.troubles.header_timeout).toBe(1);
  });

  test("cuts one whose header block goes on and on, frame by frame", async () => {
    const { connection, peer, pass } = await start({ headerBlockMs: 3_000 });
    peer.send(peer.headers(1, callFields(METHOD), 0));
    await pass(5, () => peer.send(frameOf(FrameType.continuation, 0, 1)));
    expect(connection.server.counts.troubles.header_timeout).toBe(1);
  });

  // Promise(grpc): A call is answered within a second of its deadline, even if its message never comes.
  test("answers a call whose deadline passes before its message has come", async () => {
    const { server, peer, pass } = await start();
    peer.send(partOf(peer, 1, ["grpc-timeout", "2S"]));
    await pass(4);
    expect((await peer.outcome(1)).status).toBe("4");
    expect(server.partialBytes).toBe(0);
    peer.send(peer.call(3, METHOD, "still here"));
    expect((await peer.outcome(3)).status).toBe("0");
  });

  test("is not needed for a late reply: a call that is asked whether its caller has gone ends at its deadline", async () => {
    const replies: UnaryReply[] = [];
    const { server, peer, clock } = await start({}, { handle: (_message, _deadlineUs, reply) => replies.push(reply) });
    peer.send(peer.call(1, METHOD, "slow", ["grpc-timeout", "2S"]), peer.call(3, METHOD, "slow"));
    await expect.poll(() => replies.length).toBe(2);
    clock.advanceSeconds(2);
    expect(replies.map((reply) => reply.isGone)).toEqual([true, false]);
    for (const reply of replies) reply.ok(Buffer.from("late"));
    expect([(await peer.outcome(1)).status, (await peer.outcome(3)).status]).toEqual(["4", "0"]);
    expect(server.inFlight).toBe(0);
  });

  test("answers a call without a deadline whose message never comes whole", async () => {
    const { server, peer, pass } = await start({ stallMs: 5_000 });
    peer.send(partOf(peer, 1), peer.headers(3, callFields(METHOD)));
    await pass(4);
    expect(peer.frames.some(({ streamId }) => streamId === 1)).toBe(false);
    await pass(4);
    expect((await peer.outcome(1)).status).toBe("4");
    expect((await peer.outcome(3)).status).toBe("4");
    expect(server.partialBytes).toBe(0);
    expect(server.counts.troubles.partial_requests).toBe(2);
  });
});

test("a connection that is going because of its age goes sooner when the server does", async () => {
  const { connection, peer, pass } = await start();
  peer.answersPings = true;
  peer.send(peer.headers(1, callFields(METHOD)));
  connection.drain(60_000);
  await pass(2);
  connection.drain(2_000);
  await pass(1);
  expect(connection.isClosed).toBe(false);
  await pass(2);
  expect(connection.isClosed).toBe(true);
});

describe("when too many streams wait for their peers", () => {
  // Promise(grpc): A connection loses streams that wait for it only above its share, and no call is refused for them.
  test("connections with more than their share lose the oldest, and no call is refused", async () => {
    const { server, peer } = await start({ waitingStreamsMax: 50 });
    const other = connectInMemory(server).peer;
    other.send(settingsOf());
    other.send(other.headers(1, callFields(METHOD)));
    for (let i = 0; i < 49; i++) peer.send(peer.headers(2 * i + 1, callFields(METHOD)));
    other.send(frameOf(FrameType.data, Flag.endStream, 1, messageOf("served")));
    expect((await other.outcome(1)).body.toString()).toBe("served");
    const lost = peer.frames.filter(({ type }) => type === FrameType.rstStream);
    // Each may keep 12: half of 50 for two.
    expect(lost.map(({ streamId }) => streamId)).toEqual(Array.from({ length: 37 }, (_, i) => 2 * i + 1));
    expect(new Set(lost.map(({ payload }) => payload.readUInt32BE()))).toEqual(new Set([ErrorCode.refusedStream]));
    expect(server.counts.troubles.waiting_streams).toBe(37);
    expect(server.streams).toBe(12);
  });

  test("connections that all have equally many keep half of the bound together", async () => {
    const { server } = await start({ waitingStreamsMax: 64 });
    const peers = Array.from({ length: 4 }, () => connectInMemory(server).peer);
    for (const peer of peers) peer.send(settingsOf());
    for (let i = 0; i < 15; i++) for (const peer of peers) peer.send(peer.headers(2 * i + 1, callFields(METHOD)));
    await expect.poll(() => server.streams).toBe(60);
    for (const peer of peers) peer.send(peer.headers(31, callFields(METHOD)));
    // 6 for each of five connections: half of 64, divided by five.
    await expect.poll(() => server.streams).toBe(24);
  });

  test("answers that no peer reads are dropped, with a code after which no client retries", async () => {
    const { server, peer } = await start({ waitingStreamsMax: 50 });
    peer.send(settingsOf([Setting.initialWindowSize, 0]));
    for (let i = 0; i < 50; i++) peer.send(peer.call(2 * i + 1, METHOD, "never read"));
    await peer.seen(FrameType.headers, 99);
    expect(server.streams).toBe(50);
    peer.send(...Array.from({ length: 25 }, (_, i) => peer.headers(101 + 2 * i, callFields(METHOD))));
    const { payload } = await peer.seen(FrameType.rstStream, 1);
    expect(payload.readUInt32BE()).toBe(ErrorCode.enhanceYourCalm);
    expect(server.streams).toBe(25);
  });

  test("calls that a handler works for are never lost, and others are never refused for them", async () => {
    const replies: (() => void)[] = [];
    const { server, peer } = await start(
      { waitingStreamsMax: 10 },
      { handle: (message, _deadlineUs, reply) => replies.push(() => reply.ok(message)) },
    );
    for (let i = 0; i < 60; i++) peer.send(peer.call(2 * i + 1, METHOD, "slow"));
    await expect.poll(() => replies.length).toBe(60);
    for (const reply of replies) reply();
    for (let i = 0; i < 60; i++) expect((await peer.outcome(2 * i + 1)).status).toBe("0");
    expect(server.counts.troubles.waiting_streams).toBe(0);
  });
});

// Promise(grpc): Streams and incomplete requests are bounded for all peers together, and the peer that holds most of them loses them first.
test("parts of requests are bounded for all connections together, at the cost of the one that has most", async () => {
  const { server, connection, peer } = await start({ partialBytesTotalMax: 3_500 });
  const other = connectInMemory(server).peer;
  other.send(settingsOf());
  for (const id of [1, 3, 5, 7]) peer.send(partOf(peer, id));
  expect((await peer.outcome(7)).status).toBe("8");
  expect(server.counts.troubles.partial_requests).toBe(1);
  other.send(partOf(other, 1), frameOf(FrameType.data, Flag.endStream, 1, Buffer.alloc(505)));
  expect((await other.outcome(1)).status).toBe("0");
  expect(connection.isClosed).toBe(true);
  expect(server.counts.troubles.partial_requests).toBe(2);
  other.close();
  await expect.poll(() => server.partialBytes).toBe(0);
});

describe("input that never ends is bounded for all connections together:", () => {
  const kinds = [
    {
      kind: "frames",
      begun: (peer: Http2Peer) => peer.headers(1, callFields(METHOD, ["x", "y".repeat(900)])).subarray(0, -1),
    },
    {
      kind: "header blocks",
      begun: (peer: Http2Peer) => peer.headers(1, callFields(METHOD, ["x", "y".repeat(400)]), 0),
    },
    { kind: "messages", begun: (peer: Http2Peer) => partOf(peer, 1) },
  ];

  // Promise(grpc): Input that never ends is bounded for all peers together, and costs the connections whose input is unfinished longest.
  test.each(kinds)("$kind cost the connections that began them first, not the one that has most", async ({ begun }) => {
    const { server, connection, peer, clock } = await start({ partialBytesTotalMax: 10_000 });
    const before = Array.from({ length: 4 }, () => connectInMemory(server));
    for (const attacker of before) {
      attacker.peer.send(settingsOf(), begun(attacker.peer));
      await expect.poll(() => attacker.connection.partialBytes).toBeGreaterThan(500);
      clock.advanceSeconds(1);
    }
    // More than any of them holds.
    const message = messageOf(Buffer.alloc(2_000));
    peer.send(peer.headers(1, callFields(METHOD)), frameOf(FrameType.data, 0, 1, message.subarray(0, 1_900)));
    await expect.poll(() => connection.partialBytes).toBeGreaterThan(1_900);
    const after = Array.from({ length: 4 }, () => connectInMemory(server));
    for (const attacker of after) {
      clock.advanceSeconds(1);
      attacker.peer.send(settingsOf(), begun(attacker.peer));
      await expect.poll(() => attacker.connection.partialBytes).toBeGreaterThan(500);
    }
    expect(before.slice(0, 3).map((attacker) => attacker.connection.isClosed)).toEqual([true, true, true]);
    expect(server.partialBytes).toBeLessThanOrEqual(10_000);
    expect(server.counts.troubles.partial_requests).toBeGreaterThanOrEqual(3);
    peer.send(frameOf(FrameType.data, Flag.endStream, 1, message.subarray(1_900)));
    expect((await peer.outcome(1)).status).toBe("0");
    for (const attacker of [...before, ...after]) attacker.peer.close();
    await expect.poll(() => server.partialBytes).toBe(0);
  });
});

// Promise(grpc): Output that peers don't read is bounded for all together, and costs those that have left theirs unread longest.
test("unread output costs the connections that left it first, not the one that has most", async () => {
  const counts = fc.record({ before: fc.integer({ min: 2, max: 6 }), readsAgain: fc.boolean() });
  await fc.assert(
    fc.asyncProperty(counts, async ({ before: count, readsAgain }) => {
      const { server, connection, peer, clock } = await start({ unreadBytesTotalMax: (count + 1) * 100_000 });
      const leave = async (one: { connection: Connection; peer: Http2Peer }, id: number, calls: number) => {
        one.peer.duplex.pause();
        const until = one.connection.unreadBytes + calls * 15_000;
        for (let i = 0; i < calls; i++) one.peer.send(one.peer.call(id + 2 * i, METHOD, Buffer.alloc(15_000)));
        await expect.poll(() => one.connection.unreadBytes >= until || one.connection.isClosed).toBe(true);
        clock.advanceSeconds(1);
      };
      const open = () => {
        const one = connectInMemory(server);
        one.peer.send(settingsOf([Setting.initialWindowSize, 0x7fff_ffff]), WIDE);
        return one;
      };
      peer.send(settingsOf([Setting.initialWindowSize, 0x7fff_ffff]), WIDE);
      // The honest peer was there first, too, but reads what it left.
      if (readsAgain) {
        await leave({ connection, peer }, 1, 6);
        peer.duplex.resume();
        await expect.poll(() => connection.unreadBytes).toBe(0);
      }
      const before = Array.from({ length: count }, open);
      for (const one of before) await leave(one, 1, 5);
      await leave({ connection, peer }, 101, 8);
      const after = Array.from({ length: 2 }, open);
      for (const one of after) await leave(one, 1, 5);
      expect(before[0]?.connection.isClosed).toBe(true);
      expect(connection.isClosed).toBe(false);
      expect(server.unreadBytes).toBeLessThanOrEqual((count + 1) * 100_000);
      for (const one of [...before, ...after]) one.peer.close();
      peer.duplex.resume();
      await expect.poll(() => server.unreadBytes).toBe(0);
    }),
    { numRuns: runs(10) },
  );
});

describe("header tables of peers are bounded for all connections together:", () => {
  /** A call whose block adds `bytes` to the table. */
  const adding = (id: number, bytes: number): Buffer => {
    const field = Buffer.concat([Buffer.from([0x40, 1, 0x78, 0x7f, bytes - 33 - 127]), Buffer.alloc(bytes - 33, 0x79)]);
    const block = Buffer.concat([plainBlock(callFields(METHOD)), field]);
    return Buffer.concat([
      frameOf(FrameType.headers, Flag.endHeaders, id, block),
      frameOf(FrameType.data, Flag.endStream, id, messageOf("hi")),
    ]);
  };

  // Promise(grpc): Header tables are bounded for all peers together; the connections that were silent longest are asked to connect again.
  test("the connections that were silent longest are asked to connect again", async () => {
    const { server, connection, peer, clock } = await start({ headerTablesBytesMax: 1_000 });
    const silent = Array.from({ length: 3 }, () => connectInMemory(server));
    for (const each of silent) {
      each.peer.send(settingsOf(), adding(1, 200));
      expect((await each.peer.outcome(1)).status).toBe("0");
      clock.advanceSeconds(1);
    }
    peer.send(adding(1, 200));
    await peer.outcome(1);
    expect(server.tableBytes).toBeLessThanOrEqual(750);
    const goodbye = await (silent[0] as (typeof silent)[0]).peer.seen(FrameType.goaway, 0);
    expect(goodbye.payload.readUInt32BE(4)).toBe(ErrorCode.noError);
    expect(silent.map((each) => each.connection.isClosed)).toEqual([true, true, false]);
    expect(connection.isClosed).toBe(false);
    expect(server.counts.troubles.header_tables).toBe(2);
    peer.send(peer.call(3, METHOD, "still here"));
    expect((await peer.outcome(3)).status).toBe("0");
    for (const { peer: each } of silent) each.close();
    peer.close();
    await expect.poll(() => server.tableBytes).toBe(0);
  });
});
