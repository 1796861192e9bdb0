// Streams of answers, of requests and of both on a server that knows nothing of Headgate, called by grpc-js; and peers
// that send or read as they should not. What grpc-go finds is in interop.server.test.ts.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { Client, credentials, type StatusObject, status } from "@grpc/grpc-js";
import { expect, test, vi } from "vitest";
import { closedWithTest, endWithTest } from "../../../test/support/ends.ts";
import { callFields, frameOf, type Http2Peer, messageOf, peerOf, wordOf } from "../../../test/support/http2-peer.ts";
import { temporaryFolder } from "../../../test/support/temporary-folder.ts";
import { GrpcStatus, type RunningServer, type ServerOptions, type StreamCall, serve } from "../src/fast-lane.ts";
import { Flag, FrameType, Setting } from "../src/protocol.ts";

const SAY = "/demo.Echo/Say";
const LIST = "/demo.Echo/List";
const CHAT = "/demo.Echo/Chat";
const ANSWER = Buffer.alloc(16_000, "a");
const PACKAGE = resolve(import.meta.dirname, "..");

const same = (bytes: Buffer) => bytes;

interface Rig {
  readonly server: RunningServer;
  readonly failures: unknown[];
  /** Calls of Chat and List, in the order of their first requests. */
  readonly calls: StreamCall[];
}

/** Say and Chat echo, List does what the test says. */
async function start(
  list: (call: StreamCall, request: Buffer) => void = (call) => call.end(),
  options: Partial<ServerOptions> = {},
): Promise<Rig> {
  const failures: unknown[] = [];
  const calls: StreamCall[] = [];
  const note = (call: StreamCall) => (calls.includes(call) ? 0 : calls.push(call));
  const server = await serve({
    methods: [
      { path: SAY, handler: { handle: (message, _deadlineUs, reply) => reply.ok(message) } },
      {
        path: CHAT,
        takesMany: true,
        handle(message, call) {
          note(call);
          if (message === undefined) call.end();
          else if (message.toString() === "throw") throw new Error("a fault of the handler");
          else call.answer(message);
        },
      },
      {
        path: LIST,
        takesMany: false,
        handle(message, call) {
          note(call);
          list(call, message as Buffer);
        },
      },
    ],
    observer: {
      handlerFailed: (path, error) => failures.push(`${path}: ${error}`),
      overloaded: () => undefined,
      unserved: () => undefined,
    },
    ...options,
  });
  endWithTest(() => server.drain(0));
  return { server, failures, calls };
}

const clientOf = ({ server }: Rig) =>
  closedWithTest(new Client(`127.0.0.1:${server.port}`, credentials.createInsecure()));
const chatOf = (client: Client) => client.makeBidiStreamRequest(CHAT, same, same, {});
const listOf = (client: Client, options = {}) =>
  client.makeServerStreamRequest(LIST, same, same, Buffer.alloc(0), options);

/** What comes of a stream: its messages and how it ends. */
async function all(stream: ReturnType<typeof listOf> | ReturnType<typeof chatOf>) {
  const messages: Buffer[] = [];
  stream.on("data", (message: Buffer) => messages.push(message));
  stream.on("error", () => undefined);
  const { code, details } = await new Promise<StatusObject>((ended) => stream.once("status", ended));
  return { messages, code, details };
}

const say = (client: Client, text: string) =>
  new Promise<string>((done, failed) =>
    client.makeUnaryRequest(SAY, same, same, Buffer.from(text), (error, answer) =>
      error === null ? done(String(answer)) : failed(error),
    ),
  );

const bytesOn = (peer: Http2Peer, id: number) =>
  peer.frames
    .filter(({ type, streamId }) => type === FrameType.data && streamId === id)
    .reduce((sum, { payload }) => sum + payload.length, 0);

// Promise(grpc): Streams of requests and of answers are served both at once, in order, for as long as both sides want.
test("a stream both ways carries each message in order, and ends when its caller has sent all", async () => {
  const rig = await start();
  const client = clientOf(rig);
  const sent = Array.from({ length: 5_000 }, (_, i) => Buffer.from(`${i}:${"x".repeat(i % 900)}`));
  const chat = chatOf(client);
  const seen = all(chat);
  for (const message of sent) if (!chat.write(message)) await once(chat, "drain");
  chat.end();
  const { messages, code } = await seen;
  expect(code).toBe(status.OK);
  expect(Buffer.concat(messages).equals(Buffer.concat(sent))).toBe(true);
  expect(rig.failures).toEqual([]);
});

test("a handler that sends as its caller reads gets everything through, and is told when all has gone out", async () => {
  const TOTAL = 2_000;
  let sent = 0;
  const unread: number[] = [];
  const rig = await start((call) => {
    const more = () => {
      for (; sent < TOTAL && call.unread === 0; sent++) call.answer(ANSWER);
      if (sent === TOTAL) call.end();
    };
    call.onRead(() => {
      unread.push(call.unread);
      more();
    });
    more();
  });
  const { messages, code } = await all(listOf(clientOf(rig)));
  expect({ code, count: messages.length }).toEqual({ code: status.OK, count: TOTAL });
  expect(new Set(unread)).toEqual(new Set([0]));
});

// Promise(grpc): A handler that sends more than its caller reads loses that call alone.
test("a handler that sends without looking loses the call at the bound, and others are served meanwhile", async () => {
  const rig = await start(
    (call) => {
      for (let i = 0; i < 200; i++) call.answer(ANSWER);
    },
    { bounds: { partialBytesMax: 1_000_000 } },
  );
  const peer = peerOf(rig.server.port);
  peer.greet([Setting.initialWindowSize, 0]);
  peer.send(peer.call(1, LIST, ""));
  // Trailers need no window.
  expect(await peer.outcome(1)).toMatchObject({ status: String(GrpcStatus.resourceExhausted), body: Buffer.alloc(0) });
  expect(rig.server.counts.troubles.partial_requests).toBe(1);
  expect(await say(clientOf(rig), "served")).toBe("served");
  peer.send(peer.headers(3, callFields(CHAT)), frameOf(FrameType.windowUpdate, 0, 3, wordOf(1_000)));
  peer.send(frameOf(FrameType.data, Flag.endStream, 3, messageOf("the same connection")));
  expect((await peer.outcome(3)).body.toString()).toBe("the same connection");
});

test("callers that send and never read are not read, and all of them together keep to the bound", async () => {
  const bounds = { partialBytesMax: 400_000, partialBytesTotalMax: 2_000_000 };
  const rig = await start(undefined, { bounds });
  const floods = Array.from({ length: 40 }, () => {
    const peer = peerOf(rig.server.port);
    peer.greet([Setting.initialWindowSize, 0]);
    for (let id = 1; id < 40; id += 2) {
      peer.send(peer.headers(id, callFields(CHAT)), frameOf(FrameType.data, 0, id, messageOf(ANSWER)));
      peer.send(frameOf(FrameType.data, 0, id, messageOf(ANSWER)));
    }
    return peer;
  });
  const client = clientOf(rig);
  for (let i = 0; i < 20; i++) expect(await say(client, `honest ${i}`)).toBe(`honest ${i}`);
  await vi.waitUntil(() => rig.server.counts.troubles.partial_requests > 0);
  const { messages, code } = await (() => {
    const chat = chatOf(client);
    const seen = all(chat);
    chat.write(Buffer.from("heard"));
    chat.end();
    return seen;
  })();
  expect({ code, text: String(messages) }).toEqual({ code: status.OK, text: "heard" });
  expect(Math.max(...floods.map((peer) => bytesOn(peer, 1)))).toBe(0);
  expect(rig.failures).toEqual([]);
});

test.each([
  { how: "cancels it", end: (list: ReturnType<typeof listOf>) => list.cancel(), code: status.CANCELLED, options: {} },
  { how: "gave it a deadline", end: () => undefined, code: status.DEADLINE_EXCEEDED, options: { deadline: 300 } },
])(
  "a handler hears once that a call is over whose caller $how, and its answers go nowhere",
  async ({ end, code, options }) => {
    let over = 0;
    const rig = await start((call) => {
      call.onOver(() => over++);
      call.answer(ANSWER);
    });
    const deadline = Date.now() + (options.deadline ?? 60_000);
    const list = listOf(clientOf(rig), { deadline });
    list.once("data", () => end(list));
    expect((await all(list)).code).toBe(code);
    await vi.waitUntil(() => over > 0);
    rig.calls[0]?.answer(ANSWER);
    rig.calls[0]?.end();
    expect({ over, unread: rig.calls[0]?.unread, failures: rig.failures }).toEqual({
      over: 1,
      unread: 0,
      failures: [],
    });
  },
);

test("a handler that throws costs its own call INTERNAL, also while answers are sent", async () => {
  const rig = await start((call) => {
    call.onRead(() => {
      throw new Error("a fault of the listener");
    });
    for (let i = 0; i < 20; i++) call.answer(ANSWER);
  });
  const client = clientOf(rig);
  const chat = chatOf(client);
  const seen = all(chat);
  chat.write(Buffer.from("throw"));
  expect(await seen).toMatchObject({ code: status.INTERNAL, details: "internal error" });
  expect((await all(listOf(client))).code).toBe(status.INTERNAL);
  expect(rig.failures).toEqual([`${CHAT}: Error: a fault of the handler`, `${LIST}: Error: a fault of the listener`]);
  expect(await say(client, "served")).toBe("served");
});

test("a drain ends streams that go on, after their grace at the latest", async () => {
  const rig = await start((call) => call.answer(ANSWER));
  const list = listOf(clientOf(rig));
  const seen = all(list);
  await new Promise((heard) => list.once("data", heard));
  await rig.server.drain(200);
  expect((await seen).code).toBe(status.UNAVAILABLE);
});

test("the server of the README serves, and drains at SIGTERM", async () => {
  const [, program = ""] = /^```js\n(.*?)^```$/ms.exec(readFileSync(join(PACKAGE, "README.md"), "utf8")) ?? [];
  const folder = temporaryFolder("fast-lane-readme");
  mkdirSync(join(folder, "node_modules/@headgate"), { recursive: true });
  symlinkSync(PACKAGE, join(folder, "node_modules/@headgate/fast-lane"));
  writeFileSync(join(folder, "server.mjs"), program.replace("port: 50051", "port: 0"));
  const child = spawn(process.execPath, ["server.mjs"], { cwd: folder, stdio: ["ignore", "pipe", "inherit"] });
  endWithTest(() => child.kill("SIGKILL"));
  const [said] = (await once(child.stdout, "data")) as [Buffer];
  const port = Number(/listening on (\d+)/.exec(said.toString())?.[1]);
  const client = closedWithTest(new Client(`127.0.0.1:${port}`, credentials.createInsecure()));
  expect(await say(client, "hello")).toBe("hello");
  const chat = chatOf(client);
  const seen = all(chat);
  chat.write(Buffer.from("you"));
  chat.end();
  expect(String((await seen).messages)).toBe("you");
  child.kill("SIGTERM");
  expect(await once(child, "exit")).toEqual([0, null]);
});
