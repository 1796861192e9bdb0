// Resets that a peer has the server send (MadeYouReset): whatever the way, and however ways are mixed, they count as
// resets of the peer's own. The work that its calls began before them is bounded by that, and the connection ends.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  callFields,
  type Field,
  frameOf,
  type Http2Peer,
  messageOf,
  settingsOf,
  wordOf,
} from "../../../test/support/http2-peer.ts";
import { runs } from "../../../test/support/runs.ts";
import { connectInMemory, METHOD, serverInMemory } from "../../../test/support/server-in-memory.ts";
import { ErrorCode, Flag, FrameType, WINDOW_DEFAULT } from "../src/protocol.ts";

/** Says on stream `id` what makes the server reset it, or another. */
type Way = (peer: Http2Peer, id: number) => Buffer;

const END = Flag.endHeaders | Flag.endStream;
const call: Way = (peer, id) => peer.call(id, METHOD, "work");
const begun = (peer: Http2Peer, id: number, ...more: Field[]) => peer.headers(id, callFields(METHOD, ...more));
const data = (id: number, bytes: Uint8Array, flags = 0) => frameOf(FrameType.data, flags, id, bytes);
const sixteen = Buffer.alloc(16);

const WAYS: Readonly<Record<string, Way>> = {
  "DATA after the end of a call": (peer, id) => Buffer.concat([call(peer, id), data(id, sixteen)]),
  "an empty end after the end of a call": (peer, id) =>
    Buffer.concat([call(peer, id), data(id, Buffer.alloc(0), Flag.endStream)]),
  "HEADERS after the end of a call": (peer, id) => Buffer.concat([call(peer, id), begun(peer, id)]),
  "trailers after the end of a call": (peer, id) =>
    Buffer.concat([call(peer, id), peer.headers(id, [["x-late", "1"]], END)]),
  "a window update of nothing": (peer, id) =>
    Buffer.concat([call(peer, id), frameOf(FrameType.windowUpdate, 0, id, wordOf(0))]),
  "a window of more than 2^31 - 1": (peer, id) =>
    Buffer.concat([call(peer, id), frameOf(FrameType.windowUpdate, 0, id, wordOf(0x7fff_ffff))]),
  "a window update of nothing for a stream that is gone": (peer, id) =>
    Buffer.concat([begun(peer, id, ["te", "x"]), frameOf(FrameType.windowUpdate, 0, id, wordOf(0))]),
  "HEADERS within a body": (peer, id) => Buffer.concat([begun(peer, id), begun(peer, id)]),
  "trailers with a pseudo-header": (peer, id) =>
    Buffer.concat([begun(peer, id), peer.headers(id, [[":path", METHOD]], END)]),
  "less body than announced": (peer, id) =>
    Buffer.concat([begun(peer, id, ["content-length", "100"]), data(id, messageOf("x"), Flag.endStream)]),
  "more body than announced": (peer, id) =>
    Buffer.concat([begun(peer, id, ["content-length", "3"]), data(id, messageOf("xxxxxxxxxxxxxxx"))]),
  "trailers before the body is whole": (peer, id) =>
    Buffer.concat([begun(peer, id, ["content-length", "100"]), peer.headers(id, [["x-late", "1"]], END)]),
  "a body announced and then none": (peer, id) => peer.headers(id, callFields(METHOD, ["content-length", "5"]), END),
  "two lengths that differ": (peer, id) => begun(peer, id, ["content-length", "5"], ["content-length", "6"]),
  "fields of HTTP/1.1": (peer, id) => begun(peer, id, ["connection", "close"]),
  "a method that nobody has, with a body to come": (peer, id) => peer.headers(id, callFields("/no.such/Method")),
  "a message of no known kind, with more to come": (peer, id) =>
    Buffer.concat([begun(peer, id), data(id, Buffer.alloc(16, 2))]),
  "a message too long, with more to come": (peer, id) =>
    Buffer.concat([begun(peer, id), data(id, Buffer.concat([Buffer.from([0]), wordOf(100_001), sixteen]))]),
  "a second message, with more to come": (peer, id) =>
    Buffer.concat([begun(peer, id), data(id, Buffer.concat([messageOf("first"), messageOf("second")]))]),
  "DATA for streams that are long gone": (peer, id) =>
    Buffer.concat([call(peer, id), data(Math.max(1, id - 400), sixteen)]),
  "streams that are never ended": (peer, id) => begun(peer, id),
};
/** Costs its sender 64 KiB each time, so it is tried apart from the others. */
const pastTheWindow: Way = (peer, id) =>
  Buffer.concat([
    begun(peer, id),
    ...Array.from({ length: Math.ceil(WINDOW_DEFAULT / 16_384) + 1 }, () => data(id, Buffer.alloc(16_384, 0))),
  ]);

/** What a peer may have had reset at once: the stock of resets and that of refused streams. */
const STOCKS = 2 * 4_096;
const TIMES_MAX = 12_000;
/** Fewer than the streams that may be open at once. */
const PER_WRITE = 64;

interface Outcome {
  readonly code: number | undefined;
  readonly resets: number;
  readonly served: number;
  readonly begun: number;
  readonly failures: readonly unknown[];
}

/** Says `ways` in turn, again and again, until the connection ends; each `servedEvery`th call is answered. */
async function play(
  ways: readonly Way[],
  { servedEvery = Number.POSITIVE_INFINITY, times = TIMES_MAX } = {},
): Promise<Outcome> {
  let begunCalls = 0;
  let served = 0;
  const { server, failures } = serverInMemory({
    handle(message, _deadlineUs, reply) {
      begunCalls++;
      if (begunCalls % servedEvery !== 0) return;
      served++;
      reply.ok(message);
    },
  });
  const { connection, peer } = connectInMemory(server);
  peer.send(settingsOf(), frameOf(FrameType.windowUpdate, 0, 0, wordOf(100_000_000)));
  for (let i = 0; i < times && !connection.isClosed; i += PER_WRITE) {
    const acts = Array.from({ length: PER_WRITE }, (_, j) =>
      (ways[(i + j) % ways.length] as Way)(peer, 2 * (i + j) + 1),
    );
    peer.send(...acts);
    await new Promise((resolve) => setImmediate(resolve));
  }
  const isClosed = connection.isClosed;
  peer.close();
  await new Promise((resolve) => setImmediate(resolve));
  const goaway = peer.frames.filter(({ type }) => type === FrameType.goaway).at(-1);
  return {
    code: isClosed ? goaway?.payload.readUInt32BE(4) : undefined,
    resets: peer.frames.filter(({ type }) => type === FrameType.rstStream).length,
    served,
    begun: begunCalls,
    failures,
  };
}

describe("resets that the peer has the server send end the connection:", () => {
  test.each(Object.entries(WAYS))("%s", async (_name, way) => {
    const { code, resets, failures } = await play([way]);
    expect(code).toBe(ErrorCode.enhanceYourCalm);
    expect(resets).toBeLessThanOrEqual(STOCKS);
    expect(failures).toEqual([]);
  });

  test("more DATA than the stream's window allows, counted with the other resets", async () => {
    // The stock is used up by something cheaper first.
    const cheap = WAYS["fields of HTTP/1.1"] as Way;
    const { code, resets } = await play([...Array.from({ length: 63 }, () => cheap), pastTheWindow]);
    expect(code).toBe(ErrorCode.enhanceYourCalm);
    expect(resets).toBeLessThanOrEqual(STOCKS);
  });

  // Promise(grpc): A peer that makes the server send too many resets loses its connection.
  test("any mixture, and no more work is begun for it than resets are allowed", async () => {
    const mixture = fc.array(fc.constantFrom(...Object.values(WAYS)), { minLength: 2, maxLength: 6 });
    await fc.assert(
      fc.asyncProperty(mixture, fc.integer({ min: 2, max: 50 }), async (ways, servedEvery) => {
        const { code, resets, served, begun: work, failures } = await play(ways, { servedEvery, times: 30_000 });
        expect(code).toBe(ErrorCode.enhanceYourCalm);
        expect(resets).toBeLessThanOrEqual(STOCKS + served);
        expect(work).toBeLessThanOrEqual(STOCKS + 2 * served);
        expect(failures).toEqual([]);
      }),
      { numRuns: runs(8) },
    );
  });
});

test("a proxy that gives calls up now and then, and has some fail early, is served on", async () => {
  const { code, served } = await play([call, call, call, WAYS["a message too long, with more to come"] as Way], {
    servedEvery: 1,
    times: 20_000,
  });
  expect(code).toBeUndefined();
  expect(served).toBeGreaterThan(10_000);
});
