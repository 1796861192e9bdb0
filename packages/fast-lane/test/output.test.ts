// What is handed to the socket stays as it was until the socket has called back, and is written at most once a turn.

import type { Socket } from "node:net";
import { expect, test } from "vitest";
import { FrameType } from "../src/protocol.ts";
import { CHUNK_BYTES, ChunkPool, Output } from "../src/sender.ts";

interface Write {
  readonly bytes: Buffer;
  readonly copy: Buffer;
  done(error?: Error): void;
}

/** A socket that calls back only when the test says so. */
function slowSocket(): { readonly socket: Socket; readonly writes: Write[] } {
  const writes: Write[] = [];
  const socket = {
    cork: () => undefined,
    uncork: () => undefined,
    write: (bytes: Buffer, done: (error?: Error) => void) => writes.push({ bytes, copy: Buffer.from(bytes), done }),
  };
  return { socket: socket as unknown as Socket, writes };
}

function newOutput(): { readonly output: Output; readonly writes: Write[] } {
  const { socket, writes } = slowSocket();
  return { output: new Output(socket, new ChunkPool(), () => undefined), writes };
}

const frame = (output: Output, fill: number, size = 100): void =>
  output.frame(FrameType.data, 0, 1, Buffer.alloc(size, fill));

test("bytes that the socket has not called back about are never written to again", () => {
  const { output, writes } = newOutput();
  let called = 0;
  for (let turn = 0; turn < 50; turn++) {
    for (let i = 0; i < turn; i++) frame(output, turn, 3_000);
    output.flush();
    if (turn % 3 === 0) writes[called++]?.done();
    expect(writes.slice(called).every(({ bytes, copy }) => bytes.equals(copy))).toBe(true);
  }
  expect(writes.length - called).toBeGreaterThan(50);
});

test("everything of a turn goes out in one write, and in order", () => {
  const { output, writes } = newOutput();
  for (let i = 0; i < 100; i++) frame(output, i);
  output.flush();
  output.flush();
  expect(writes).toHaveLength(1);
  expect(Array.from({ length: 100 }, (_, i) => writes[0]?.bytes[i * 109 + 9])).toEqual(
    Array.from({ length: 100 }, (_, i) => i),
  );
});

test("bytes whose write failed are not used again", () => {
  const { output, writes } = newOutput();
  frame(output, 1);
  output.flush();
  writes[0]?.done(new Error("broken pipe"));
  frame(output, 2);
  output.flush();
  expect(writes[1]?.bytes.buffer).not.toBe(writes[0]?.bytes.buffer);
});

// Promise(grpc): A slow reader holds no more memory than the bytes that wait for it.
test("a socket that does not call back is given no more chunks than the bytes fill", () => {
  const { output, writes } = newOutput();
  for (let turn = 0; turn < 5_000; turn++) {
    frame(output, turn, 20);
    output.flush();
  }
  const held = new Set(writes.map(({ bytes }) => bytes.buffer)).size * CHUNK_BYTES;
  expect(held).toBeLessThan(output.unread + 2 * CHUNK_BYTES);
});

test("what waits for a socket that is behind goes out when it calls back, or when it is the last", () => {
  const { output, writes } = newOutput();
  for (let turn = 0; turn < 3; turn++) {
    frame(output, turn);
    output.flush();
  }
  expect(writes).toHaveLength(1);
  writes[0]?.done();
  expect(writes.map(({ bytes }) => bytes.length)).toEqual([109, 218]);
  frame(output, 3);
  output.flushLast();
  expect(writes.map(({ bytes }) => bytes.length)).toEqual([109, 218, 109]);
});
