// The TypeScript client between a server that answers and one that turns calls away or breaks: a call that nobody has begun
// is answered by the other server, one that may have been paid is never sent again.

import { createServer, type Socket } from "node:net";
import { expect, test } from "vitest";
import { createLimiter } from "../../packages/client/src/client.ts";
import { HpackEncoder } from "../../packages/fast-lane/src/hpack/encoder.ts";
import { ErrorCode, Flag, FrameType, PREFACE } from "../../packages/fast-lane/src/protocol.ts";
import { closedWithTest } from "../support/ends.ts";
import { frameOf, settingsOf, wordOf } from "../support/http2-peer.ts";
import { listen } from "../support/listen.ts";
import { startTestApp } from "../support/test-app.ts";

const BURST = 1_000;
const RULES = `
domain: edge
descriptors:
  - key: user
    rate_limit: { requests_per_unit: ${BURST}, unit: day, algorithm: fixed_window }
`;
const CHECKS = 60;
const UNDER_WAY = 10;

interface Way {
  readonly name: string;
  /** True if whoever gets such an answer can know that the call was not begun. */
  readonly isUntouched: boolean;
  onConnection?(socket: Socket): void;
  onCall(socket: Socket, streamId: number): void;
}

const UNAVAILABLE = 14;

function reset(code: ErrorCode): Way["onCall"] {
  return (socket, streamId) => socket.write(frameOf(FrameType.rstStream, 0, streamId, wordOf(code)));
}

function goodbye(socket: Socket, lastId: number): void {
  socket.write(frameOf(FrameType.goaway, 0, 0, Buffer.concat([wordOf(lastId), wordOf(ErrorCode.noError)])));
}

function sayUnavailable(details: string): Way["onCall"] {
  return (socket, streamId) => {
    const encoder = new HpackEncoder(() => false);
    encoder.begin();
    encoder.field(":status", "200");
    encoder.field("content-type", "application/grpc");
    encoder.field("grpc-status", String(UNAVAILABLE));
    encoder.field("grpc-message", details);
    socket.write(frameOf(FrameType.headers, Flag.endHeaders | Flag.endStream, streamId, encoder.end()));
  };
}

const ways: readonly Way[] = [
  { name: "refuses streams", isUntouched: true, onCall: reset(ErrorCode.refusedStream) },
  { name: "says goodbye before the first stream", isUntouched: true, onCall: (socket) => goodbye(socket, 0) },
  {
    name: "says goodbye before the first stream and closes",
    isUntouched: true,
    onCall(socket) {
      goodbye(socket, 0);
      socket.end();
    },
  },
  {
    name: "says goodbye as soon as it is connected",
    isUntouched: true,
    onConnection: (socket) => goodbye(socket, 0),
    onCall: () => undefined,
  },
  { name: "breaks connections", isUntouched: false, onCall: (socket) => socket.resetAndDestroy() },
  { name: "closes connections without a word", isUntouched: false, onCall: (socket) => socket.end() },
  { name: "resets with INTERNAL_ERROR", isUntouched: false, onCall: reset(ErrorCode.internalError) },
  { name: "resets with CANCEL", isUntouched: false, onCall: reset(ErrorCode.cancel) },
  { name: "resets with NO_ERROR", isUntouched: false, onCall: reset(ErrorCode.noError) },
  { name: "says UNAVAILABLE", isUntouched: false, onCall: sayUnavailable("going down") },
  {
    name: "says what the library says of calls that it did not send",
    isUntouched: false,
    onCall: sayUnavailable("No connection established"),
  },
];

// Promise(clients): A call that no server has begun is sent to another; one that may have been paid is never sent again.
test.each(ways)("one of two servers $name: no call is lost that can be saved, and none paid twice", async (way) => {
  const app = await startTestApp(RULES);
  const other = await startOther(way);
  const failures: string[] = [];
  const limiter = closedWithTest(
    createLimiter({
      servers: [`127.0.0.1:${other.port}`, `127.0.0.1:${app.grpcPort}`],
      deadlineMs: 20_000,
      onDegraded: ({ code, message }) => failures.push(`${code} ${message}`),
    }),
  );
  const question = { domain: "edge", descriptors: [{ user: "a" }] };
  let left = CHECKS;
  const checkOn = async () => {
    while (left-- > 0) await limiter.check(question);
  };
  await Promise.all(Array.from({ length: UNDER_WAY }, checkOn));
  const { statuses } = await app.ask({
    domain: "edge",
    descriptors: [{ entries: [{ key: "user", value: "a" }], hits_addend: { value: 0 } }],
  });
  const paid = BURST - (statuses[0]?.limit_remaining ?? Number.NaN);
  const begunByOther = way.isUntouched ? 0 : other.calls;
  expect({ paid, failures: failures.length }, failures[0]).toEqual({
    paid: CHECKS - begunByOther,
    failures: begunByOther,
  });
  // Else nothing was shown.
  expect(other.calls + other.connections).toBeGreaterThan(0);
});

interface Other {
  readonly port: number;
  /** Calls that came in. */
  readonly calls: number;
  readonly connections: number;
}

// As much HTTP/2 as a client needs to send calls: settings, and frames by their heads.
async function startOther(way: Way): Promise<Other> {
  let [calls, connections] = [0, 0];
  const server = createServer((socket) => {
    connections++;
    socket.write(Buffer.concat([settingsOf(), frameOf(FrameType.settings, Flag.ack, 0)]));
    way.onConnection?.(socket);
    let unread = Buffer.alloc(0);
    let isGreeted = false;
    socket.on("data", (chunk: Buffer) => {
      unread = Buffer.concat([unread, chunk]);
      if (!isGreeted && unread.length < PREFACE.length) return;
      if (!isGreeted) unread = unread.subarray(PREFACE.length);
      isGreeted = true;
      while (unread.length >= 9 && unread.length >= 9 + unread.readUIntBE(0, 3)) {
        const [type, streamId] = [unread[3], unread.readUInt32BE(5)];
        unread = unread.subarray(9 + unread.readUIntBE(0, 3));
        if (type !== FrameType.headers) continue;
        calls++;
        if (socket.writable) way.onCall(socket, streamId);
      }
    });
  });
  const port = await listen(server);
  return {
    port,
    get calls() {
      return calls;
    },
    get connections() {
      return connections;
    },
  };
}
