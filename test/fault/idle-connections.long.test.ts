// What idle connections keep of what they once sent: header fields that varied, once, as many and as long as one block may have.

import { connect, type Socket } from "node:net";
import { expect, test } from "vitest";
import { Flag, FrameType, PREFACE } from "../../packages/fast-lane/src/protocol.ts";
import { SHOULD_RATE_LIMIT_PATH } from "../../src/grpc/transport/load-proto.ts";
import { Figures } from "../soak/figures.ts";
import { endWithTest } from "../support/ends.ts";
import { callFields, type Field, frameOf, messageOf, plainBlock, settingsOf } from "../support/http2-peer.ts";
import { startService } from "../support/service-process.ts";
import { askOnce, openClient } from "../support/test-app.ts";
import { until } from "./store-rig.ts";

const CONNECTIONS = 1_500;
/** 25 KB each with a full header table, and what a busy heap keeps uncollected. With all that they sent it would be 300 MB. */
const MORE_BYTES_MAX = 120_000_000;
const DEADLINE_MS = 20_000;

/** One unary call whose header block is spread over frames. */
function call(id: number, block: Buffer): Buffer {
  const frames: Buffer[] = [];
  for (let at = 0; at < block.length; at += 16_000) {
    const isLast = at + 16_000 >= block.length;
    const type = at === 0 ? FrameType.headers : FrameType.continuation;
    frames.push(frameOf(type, isLast ? Flag.endHeaders : 0, id, block.subarray(at, at + 16_000)));
  }
  return Buffer.concat([...frames, frameOf(FrameType.data, Flag.endStream, id, messageOf(""))]);
}

const plain = (...more: Field[]) => plainBlock(callFields(SHOULD_RATE_LIMIT_PATH, ...more));

/** Header blocks of every kind that a server might remember, different on each connection. */
function variedCalls(connection: number): Buffer {
  const blocks: Buffer[] = [];
  for (let i = 0; i < 30; i++) {
    const block = plain(["x", `${connection}-${i}`.padStart(120, "v")], ["y", "w".repeat(120)]);
    blocks.push(block, block);
  }
  blocks.push(plain(...Array.from({ length: 700 }, (_, i): Field => [`a${i}`, `${connection}`.padStart(50, "z")])));
  const named = (index: number, value: string) =>
    Buffer.concat([Buffer.from([15, index - 15, value.length]), Buffer.from(value, "latin1")]);
  blocks.push(
    Buffer.concat([plain(), ...Array.from({ length: 8 }, (_, i) => named(40 + i, `${connection}`.padStart(88, "n")))]),
  );
  const added = Array.from({ length: 120 }, (_, i) =>
    Buffer.from([0x40, 2, 97 + (i % 26), 97 + Math.floor(i / 26), 0]),
  );
  blocks.push(Buffer.concat([plain(), ...added]));
  return Buffer.concat(blocks.map((block, i) => call(2 * i + 1, block)));
}

// Promise(grpc): An idle connection keeps some kilobytes, whatever it has sent before.
test("idle connections keep some kilobytes, whatever they have sent before", async () => {
  const service = await startService({ RULES_DIR: "deploy/rules", NODE_OPTIONS: "--max-old-space-size=256" });
  const client = openClient(`127.0.0.1:${service.grpcPort}`);
  const request = { domain: "edge", descriptors: [{ entries: [{ key: "remote_address", value: "a" }] }] };
  await askOnce(client, request, DEADLINE_MS);
  const before = await Figures.of(service);
  const sockets: Socket[] = [];
  endWithTest(() => {
    for (const socket of sockets) socket.destroy();
  });
  let answered = 0;
  for (let i = 0; i < CONNECTIONS; i++) {
    const socket = connect(service.grpcPort, "127.0.0.1");
    socket.on("error", () => undefined).once("data", () => answered++);
    sockets.push(socket.resume());
    socket.write(Buffer.concat([PREFACE, settingsOf(), variedCalls(i)]));
    if (i % 50 === 49) await until("calls are read", async () => answered > i);
  }
  await askOnce(client, request, DEADLINE_MS);
  const after = await Figures.of(service);
  expect(after.residentBytes - before.residentBytes).toBeLessThan(MORE_BYTES_MAX);
});
