// A fuzzer over frames: whatever a peer says, in whatever pieces, the connection either goes on and answers, or ends
// with a GOAWAY; nothing of ours fails, nothing leaks, and no window is overrun.

import fc from "fast-check";
import { describe, expect, test, vi } from "vitest";
import type { UnaryReply } from "../../../src/grpc/unary.ts";
import {
  callFields,
  type Field,
  frameOf,
  type Http2Peer,
  messageOf,
  type SeenFrame,
  settingsOf,
  wordOf,
} from "../../../test/support/http2-peer.ts";
import { runs } from "../../../test/support/runs.ts";
import { connectInMemory, METHOD, serverInMemory, WAYS } from "../../../test/support/server-in-memory.ts";
import { Flag, FrameType, Setting, WINDOW_DEFAULT } from "../src/protocol.ts";

const id = fc.oneof(
  { weight: 6, arbitrary: fc.integer({ min: 0, max: 15 }).map((n) => 2 * n + 1) },
  { weight: 1, arbitrary: fc.constantFrom(0, 2, 0x7fff_ffff) },
);
const flags = fc.oneof(fc.constantFrom(0, 1, 4, 5, 9, 13, 0x25), fc.integer({ min: 0, max: 255 }));
const bytesOf = (maxLength: number) => fc.array(fc.integer({ min: 0, max: 255 }), { maxLength });
const field = fc.constantFrom<Field>(
  ["grpc-timeout", "1S"],
  ["grpc-timeout", "0n"],
  ["content-length", "5"],
  ["te", "gzip"],
  ["connection", "close"],
  [":path", METHOD],
  [":status", "200"],
  ["X-Upper", "1"],
  ["x-any", "value"],
  ["grpc-encoding", "gzip"],
);
/** One thing that a peer does; plain data, so that a failure can be kept. */
const act = fc.oneof(
  { weight: 3, arbitrary: fc.record({ act: fc.constant("part" as const), size: fc.integer({ min: 0, max: 16_384 }) }) },
  {
    weight: 8,
    arbitrary: fc.record({
      act: fc.constant("call" as const),
      size: fc.integer({ min: 0, max: 16_000 }),
      late: fc.boolean(),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      act: fc.constant("headers" as const),
      id: fc.oneof({ weight: 5, arbitrary: fc.constant("next" as const) }, { weight: 1, arbitrary: id }),
      flags,
      fields: fc.array(field, { maxLength: 3 }),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      act: fc.constant("data" as const),
      id: fc.oneof({ weight: 3, arbitrary: fc.constant("last" as const) }, { weight: 1, arbitrary: id }),
      flags,
      size: fc.integer({ min: 0, max: 16_384 }),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      act: fc.constant("update" as const),
      id: fc.oneof(id, fc.constant(0)),
      bytes: fc.oneof(fc.integer({ min: 0, max: 70_000 }), fc.constant(0x7fff_ffff)),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      act: fc.constant("settings" as const),
      setting: fc.integer({ min: 0, max: 7 }),
      value: fc.oneof(fc.integer({ min: 0, max: 70_000 }), fc.constant(0xffff_ffff)),
    }),
  },
  { weight: 2, arbitrary: fc.record({ act: fc.constant("reset" as const), id }) },
  {
    weight: 2,
    arbitrary: fc.record({
      act: fc.constant("frame" as const),
      type: fc.integer({ min: 0, max: 12 }),
      flags,
      id,
      payload: bytesOf(40),
    }),
  },
  { weight: 1, arbitrary: fc.record({ act: fc.constant("raw" as const), bytes: bytesOf(40) }) },
  { weight: 3, arbitrary: fc.record({ act: fc.constant("reply" as const) }) },
);
type Act = typeof act extends fc.Arbitrary<infer T> ? T : never;
/** A peer's acts, and the sizes of the pieces in which they arrive. */
const history = fc.record({
  acts: fc.array(act, { minLength: 1, maxLength: 30 }),
  cuts: fc.array(fc.integer({ min: 1, max: 5_000 }), { minLength: 1, maxLength: 5 }),
});
type FrameHistory = typeof history extends fc.Arbitrary<infer T> ? T : never;

/** An answer that waits for a window when its connection ends: went wrong once. */
const FOUND: FrameHistory = {
  acts: [
    { act: "settings", setting: 4, value: 0 },
    { act: "call", size: 10, late: false },
    { act: "frame", type: 0, flags: 0, id: 0, payload: [] },
  ],
  cuts: [5_000],
};

function bytesOfAct(peer: Http2Peer, what: Act, next: number): Buffer {
  switch (what.act) {
    case "call":
      return peer.call(next, METHOD, Buffer.alloc(what.size, what.late ? 1 : 0));
    case "headers":
      return peer.headers(what.id === "next" ? next : what.id, callFields(METHOD, ...what.fields), what.flags);
    // A request that has begun: more of it may come, or not.
    case "part":
      return Buffer.concat([
        peer.headers(next, callFields(METHOD)),
        frameOf(FrameType.data, 0, next, messageOf(Buffer.alloc(20_000)).subarray(0, what.size)),
      ]);
    case "data":
      return frameOf(
        FrameType.data,
        what.flags,
        what.id === "last" ? next - 2 : what.id,
        Buffer.alloc(what.size, what.size & 1),
      );
    case "update":
      return frameOf(FrameType.windowUpdate, 0, what.id, wordOf(what.bytes));
    case "settings":
      return settingsOf([what.setting, what.value]);
    case "reset":
      return frameOf(FrameType.rstStream, 0, what.id, wordOf(8));
    case "frame":
      return frameOf(what.type, what.flags, what.id, Buffer.from(what.payload));
    case "raw":
      return Buffer.from(what.bytes);
    case "reply":
      return Buffer.alloc(0);
  }
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Plays a history and returns what is wrong with how it ended; an empty list if nothing is. */
async function faultsOf({ acts, cuts }: FrameHistory, way: (typeof WAYS)[number]): Promise<string[]> {
  const late: UnaryReply[] = [];
  const { server, failures } = serverInMemory(
    { handle: (message, _deadlineUs, reply) => (message[0] === 1 ? late.push(reply) : reply.ok(message)) },
    { way },
  );
  const { connection, peer } = connectInMemory(server);
  peer.send(settingsOf());
  let step = 0;
  let next = 1;
  for (const what of acts) {
    if (what.act === "reply") late.shift()?.ok(Buffer.alloc(20_000));
    const bytes = bytesOfAct(peer, what, next);
    if (what.act === "call" || what.act === "headers" || what.act === "part") next += 2;
    for (let at = 0; at < bytes.length; ) {
      const size = cuts[step++ % cuts.length] as number;
      peer.send(bytes.subarray(at, at + size));
      at += size;
    }
    await turn();
  }
  // Calls are served at the end of the turn they were read in, and the pair may take a turn for each end.
  for (let i = 0; i < 3; i++) await turn();
  for (const reply of late.splice(0)) reply.ok(Buffer.from("late"));
  await turn();
  const faults = failures.map(String);
  if (!connection.isClosed && connection.streams.size > 100) faults.push("more streams are open than may be");
  if (connection.sender.window < 0) faults.push("more was sent than the window allows");
  peer.close();
  await turn();
  await turn();
  const { inFlight } = server;
  if (inFlight !== 0) faults.push(`${inFlight} calls are in flight after all were answered`);
  if (connection.partialBytes !== 0) faults.push(`${connection.partialBytes} bytes of requests are kept`);
  if (server.connections.size !== 0) faults.push("the connection is kept");
  if (server.streams !== 0) faults.push(`${server.streams} streams count as open`);
  if (server.partialBytes !== 0) faults.push(`${server.partialBytes} bytes count as part of requests`);
  if (server.unreadBytes !== 0) faults.push(`${server.unreadBytes} bytes count as unread`);
  return faults;
}

describe.each(WAYS)("frames of calls %s", (way) => {
  test("in any order and in any pieces leave nothing wrong behind", async () => {
    await fc.assert(
      fc.asyncProperty(history, async (generated) => {
        expect(await faultsOf(generated, way)).toEqual([]);
      }),
      { numRuns: runs(250), examples: [[FOUND]] },
    );
  });
});

describe.each(WAYS)("calls %s between well-behaved frames", (way) => {
  const size = fc.integer({ min: 0, max: 40_000 });
  const plan = fc.record({
    sizes: fc.array(size, { minLength: 1, maxLength: 12 }),
    streamWindow: fc.integer({ min: 0, max: 70_000 }),
    step: fc.integer({ min: 3_000, max: 30_000 }),
    cut: fc.integer({ min: 700, max: 9_000 }),
  });

  test("are all answered with what they carried, whatever the windows, and no window is overrun", async () => {
    await fc.assert(
      fc.asyncProperty(plan, async ({ sizes, streamWindow, step, cut }) => {
        const { server, failures } = serverInMemory(
          { handle: (message, _deadlineUs, reply) => reply.ok(message) },
          { way },
        );
        const { peer } = connectInMemory(server);
        peer.send(settingsOf([Setting.initialWindowSize, streamWindow]));
        const bytes = Buffer.concat(sizes.map((length, i) => callInFrames(peer, 2 * i + 1, Buffer.alloc(length, i))));
        for (let at = 0; at < bytes.length; at += cut) peer.send(bytes.subarray(at, at + cut));
        const streams = sizes.map((_length, i) => new StreamSum(2 * i + 1, streamWindow));
        let allowedInAll = WINDOW_DEFAULT;
        let counted = 0;
        while (!streams.every(({ isDone }) => isDone)) {
          await turn();
          for (; counted < peer.frames.length; counted++) for (const sum of streams) sum.count(peer.frames[counted]);
          expect(streams.reduce((all, { sent }) => all + sent, 0)).toBeLessThanOrEqual(allowedInAll);
          for (const sum of streams) {
            expect(sum.sent).toBeLessThanOrEqual(sum.allowed);
            if (sum.isDone) continue;
            sum.allowed += step;
            peer.send(frameOf(FrameType.windowUpdate, 0, sum.id, wordOf(step)));
          }
          allowedInAll += step;
          peer.send(frameOf(FrameType.windowUpdate, 0, 0, wordOf(step)));
        }
        for (const [i, length] of sizes.entries()) {
          expect((await peer.outcome(2 * i + 1)).body.equals(Buffer.alloc(length, i))).toBe(true);
        }
        expect(failures).toEqual([]);
        peer.close();
      }),
      { numRuns: runs(25) },
    );
  });
});

// Promise(grpc): A request in many small frames costs only a few times as much memory as its bytes.
test.each(WAYS)("a call %s in frames of 20 bytes has only some times its bytes allocated for it", async (way) => {
  const { server } = serverInMemory({ handle: (_message, _deadlineUs, reply) => reply.ok(Buffer.alloc(1)) }, { way });
  const { peer } = connectInMemory(server);
  const bytes = callInFrames(peer, 1, Buffer.alloc(60_000), 20);
  peer.send(settingsOf());
  const allocated = vi.spyOn(Buffer, "allocUnsafe");
  peer.send(bytes);
  expect((await peer.outcome(1)).status).toBe("0");
  expect(allocated.mock.calls.reduce((sum, [size]) => sum + size, 0)).toBeLessThan(6 * 60_000);
  allocated.mockRestore();
  peer.close();
});

function callInFrames(peer: Http2Peer, stream: number, message: Buffer, size = 16_384): Buffer {
  const frames = [peer.headers(stream, callFields(METHOD))];
  const whole = messageOf(message);
  for (let at = 0; at < whole.length; at += size) {
    const isLast = at + size >= whole.length;
    frames.push(frameOf(FrameType.data, isLast ? Flag.endStream : 0, stream, whole.subarray(at, at + size)));
  }
  return Buffer.concat(frames);
}

/** What came on one stream, and what may. */
class StreamSum {
  readonly id: number;
  allowed: number;
  sent = 0;
  isDone = false;

  constructor(id: number, allowed: number) {
    this.id = id;
    this.allowed = allowed;
  }

  count(frame: SeenFrame | undefined): void {
    if (frame?.streamId !== this.id) return;
    if (frame.type === FrameType.data) this.sent += frame.payload.length;
    if (frame.type === FrameType.headers && (frame.flags & Flag.endStream) !== 0) this.isDone = true;
  }
}
