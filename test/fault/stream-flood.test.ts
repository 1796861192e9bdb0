// Floods of calls of health and reflection, over few connections and over many: no turn of the event loop gets long, others' calls,
// connections and streams are served meanwhile, and when the flooders go at once nobody notices.

import { connect, type Socket } from "node:net";
import { describe, expect, test } from "vitest";
import { Flag, FrameType, PREFACE } from "../../packages/fast-lane/src/protocol.ts";
import { SHOULD_RATE_LIMIT_PATH as PATH } from "../../src/grpc/transport/load-proto.ts";
import { endWithTest } from "../support/ends.ts";
import { ECHO, type FastLaneRig, startFastLaneRig } from "../support/fast-lane-rig.ts";
import { callFields, frameOf, messageOf, plainBlock, settingsOf, wordOf } from "../support/http2-peer.ts";
import { onThisMachine, TurnWatch } from "../support/turn-watch.ts";

// Of processor time, of which a turn takes 1 to 17, and that which reads a burst 25. What a turn costs doubles where others use the processor's
// caches; how much work a turn does is counted in packages/fast-lane/test/stream-shares.test.ts.
const TURN_MS_MAX = 50;
/** A flooder comes again at once, so often at most. The flood whose longest turn is shortest counts: a garbage collection may fall into one. */
const FLOODS_EACH = 3;
const isShort = (leastMs: number) => leastMs < onThisMachine(TURN_MS_MAX, leastMs);
const WATCH = "/grpc.health.v1.Health/Watch";
const LIST = "/grpc.health.v1.Health/List";
const REFLECTION = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
const NAME = "envoy.service.ratelimit.v3.RateLimitService";
/** Questions to reflection: a long answer, and the shortest question. */
const FILE = messageOf(Buffer.concat([Buffer.from([0x22, NAME.length]), Buffer.from(NAME)]));
const SERVICES = messageOf(Buffer.from([0x3a, 0]));

type Say = (id: number) => Buffer;
const open = (id: number, path: string): Buffer =>
  frameOf(FrameType.headers, Flag.endHeaders, id, plainBlock(callFields(path)));
const data = (id: number, bytes: Buffer, flags = 0): Buffer => frameOf(FrameType.data, flags, id, bytes);

const FLOODS: Readonly<Record<string, Say>> = {
  "reflection that says nothing": (id) => open(id, REFLECTION),
  "reflection that asks for long answers": (id) => Buffer.concat([open(id, REFLECTION), data(id, repeat(FILE, 16))]),
  "reflection that asks as often as it can": (id) =>
    Buffer.concat([open(id, REFLECTION), data(id, repeat(SERVICES, 500))]),
  watches: (id) => Buffer.concat([open(id, WATCH), data(id, messageOf(""), Flag.endStream)]),
  lists: (id) => Buffer.concat([open(id, LIST), data(id, messageOf(""), Flag.endStream)]),
  "watches given up at once": (id) => Buffer.concat([open(id, WATCH), frameOf(FrameType.rstStream, 0, id, wordOf(8))]),
};
/** Streams of all together; the default bound only takes longer to reach. */
const STREAMS_MAX = 128;
const SHAPES = [
  { connections: 10, streams: 100 },
  { connections: 50, streams: 4 },
];
const repeat = (bytes: Buffer, times: number): Buffer => Buffer.concat(Array.from({ length: times }, () => bytes));

let rig: FastLaneRig;
const sockets: Socket[] = [];

async function flood(say: Say, { connections, streams }: (typeof SHAPES)[number]): Promise<void> {
  const all = Array.from({ length: streams }, (_, i) => say(2 * i + 1));
  const words = Buffer.concat([
    PREFACE,
    settingsOf(),
    frameOf(FrameType.windowUpdate, 0, 0, wordOf(1_000_000_000)),
    ...all,
  ]);
  for (let i = 0; i < connections; i++) {
    const socket = connect(rig.server.port, "127.0.0.1", () => socket.write(words));
    socket.on("error", () => undefined).resume();
    sockets.push(socket);
    endWithTest(() => socket.destroy());
    // What the flooder needs of the processor must not count as ours.
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** A call, a watch and a question, each on a connection of its own. */
async function expectServed(): Promise<void> {
  const [caller, watcher, asker] = [rig.peer(), rig.peer(), rig.peer()];
  caller.send(caller.call(1, PATH, "served"));
  watcher.send(watcher.call(1, WATCH, ""));
  asker.send(asker.headers(1, callFields(REFLECTION)), frameOf(FrameType.data, Flag.endStream, 1, SERVICES));
  expect((await caller.outcome(1)).body.toString()).toBe("served");
  expect((await watcher.seen(FrameType.data, 1)).payload.at(-1)).toBe(1);
  expect((await asker.outcome(1)).status).toBe("0");
  for (const peer of [caller, watcher, asker]) peer.close();
}

const CASES = Object.entries(FLOODS).flatMap(([what, say]) => SHAPES.map((shape) => ({ what, say, shape, ...shape })));

describe("a flood of", () => {
  // Promise(grpc): A flood of calls of health and reflection costs only its sender, and makes no turn long.
  test.each(CASES)(
    "$what, $connections connections with $streams streams each, again and again, costs the flooder",
    async ({ say, shape }) => {
      rig = await startFastLaneRig(ECHO, { bounds: { waitingStreamsMax: STREAMS_MAX } });
      await expectServed();
      let leastMs = Number.POSITIVE_INFINITY;
      for (let round = 0; round < 2 || (round < FLOODS_EACH && !isShort(leastMs)); round++) {
        const watch = new TurnWatch();
        await flood(say, shape);
        for (let i = 0; i < 3; i++) await expectServed();
        for (const isServing of [false, true]) rig.health.setTrouble("store", isServing ? undefined : "away");
        await expectServed();
        for (const socket of sockets.splice(0)) socket.destroy();
        await expectServed();
        leastMs = Math.min(leastMs, watch.stop());
      }
      expect(isShort(leastMs), `${leastMs} ms`).toBe(true);
      expect(rig.failures).toEqual([]);
    },
  );
});

test.each(["reflection that says nothing", "watches"])(
  "a burst of %s, 3,200 streams over 100 connections that are read in one turn, makes none long",
  async (what) => {
    rig = await startFastLaneRig(ECHO);
    const say = FLOODS[what] as Say;
    const words = Buffer.concat(Array.from({ length: 32 }, (_, i) => say(2 * i + 1)));
    const burst = async (): Promise<number> => {
      for (let i = 0; i < 100; i++) {
        const socket = connect(rig.server.port, "127.0.0.1", () =>
          socket.write(Buffer.concat([PREFACE, settingsOf()])),
        );
        sockets.push(socket.on("error", () => undefined));
        endWithTest(() => socket.destroy());
        await new Promise((resolve) => socket.once("data", resolve));
        socket.resume();
      }
      const watch = new TurnWatch();
      for (const socket of sockets) socket.write(words);
      // What the flooder needs of the processor must not count as ours.
      await new Promise((resolve) => setImmediate(resolve));
      await expectServed();
      const longestMs = watch.stop();
      for (const socket of sockets.splice(0)) socket.destroy();
      await expectServed();
      return longestMs;
    };
    await burst(); // code that has not run yet is several times as slow
    let leastMs = Number.POSITIVE_INFINITY;
    for (let round = 0; round === 0 || (round < FLOODS_EACH && !isShort(leastMs)); round++)
      leastMs = Math.min(leastMs, await burst());
    expect(isShort(leastMs), `${leastMs} ms`).toBe(true);
    // All but the first two of each connection: to decode them takes as long as all else.
    expect(rig.server.counts.headerBlocksRemembered).toBeGreaterThanOrEqual(2 * 100 * 30);
    expect(rig.failures).toEqual([]);
  },
);
