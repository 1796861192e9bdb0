// Parts of the fast lane that stand alone: what is remembered of blocks, streams and floods, and how a message is written.

import { describe, expect, test, vi } from "vitest";
import { ControlFrame, ControlFrameAllowances, ServerCounts } from "../../../../src/grpc/transport/fast-lane/bounds.ts";
import { Deadlines } from "../../../../src/grpc/transport/fast-lane/deadlines.ts";
import { HeaderMemory, REMEMBERED_BLOCK_BYTES_MAX } from "../../../../src/grpc/transport/fast-lane/header-memory.ts";
import { RequestHead, Route } from "../../../../src/grpc/transport/fast-lane/request-head.ts";
import { ResponseBlocks } from "../../../../src/grpc/transport/fast-lane/response-blocks.ts";
import { Stream } from "../../../../src/grpc/transport/fast-lane/stream.ts";
import { StreamTable } from "../../../../src/grpc/transport/fast-lane/stream-table.ts";
import { percentEncoded } from "../../../../src/grpc/transport/grpc-headers.ts";
import { ManualClock } from "../../../support/manual-clock.ts";

describe("the memory of header blocks", () => {
  const block = Buffer.from("a block of headers");
  const head = new RequestHead();
  head.route = Route.unary;
  head.timeoutUs = 7;

  const learn = (memory: HeaderMemory, bytes: Buffer, generation = 1, times = 2): void => {
    for (let i = 0; i < times; i++) {
      if (memory.find(bytes, 0, bytes.length, generation) !== undefined) return;
      memory.remember(bytes, 0, bytes.length, generation, head);
    }
  };

  test("keeps what has come twice, as it was then", () => {
    const memory = new HeaderMemory();
    learn(memory, block, 1, 1);
    expect(memory.find(block, 0, block.length, 1)).toBeUndefined();
    expect(memory.remember(block, 0, block.length, 1, head)).toBe(true);
    expect(memory.find(block, 0, block.length, 1)).toMatchObject({ route: Route.unary, timeoutUs: 7 });
  });

  test("knows nothing of another generation of the table", () => {
    const memory = new HeaderMemory();
    learn(memory, block, 1);
    expect(memory.find(block, 0, block.length, 2)).toBeUndefined();
  });

  test("takes no block for another", () => {
    const memory = new HeaderMemory();
    learn(memory, block);
    for (let i = 0; i < 100_000; i++) {
      const other = Buffer.from(`a block of ${i}`);
      if (memory.find(other, 0, other.length, 1) !== undefined) throw new Error(`took ${i} for what was learnt`);
    }
    expect(memory.find(block, 0, block.length, 1)).toBeDefined();
  });

  test("does not keep the buffer that a block came in", () => {
    const memory = new HeaderMemory();
    const bytes = Buffer.from(block);
    learn(memory, bytes);
    bytes.fill(0);
    expect(memory.find(block, 0, block.length, 1)).toBeDefined();
  });

  test("leaves long blocks alone", () => {
    const memory = new HeaderMemory();
    const long = Buffer.alloc(REMEMBERED_BLOCK_BYTES_MAX + 1);
    learn(memory, long, 1, 3);
    expect(memory.find(long, 0, long.length, 1)).toBeUndefined();
  });
});

class PlainStream extends Stream {
  override waitsForPeer = true;
  override takeData = () => undefined;
  override closed = () => undefined;
}

test("the table of streams finds each by its number, the newest and older ones, until it is removed", () => {
  const table = new StreamTable();
  const streams = [1, 3, 5, 7].map((id) => Object.assign(new PlainStream(), { id }));
  for (const stream of streams) table.add(stream);
  expect(streams.map(({ id }) => table.get(id))).toEqual(streams);
  expect(table.size).toBe(4);
  for (const [i, stream] of streams.entries()) {
    table.remove(stream);
    expect(table.get(stream.id)).toBeUndefined();
    expect(table.size).toBe(3 - i);
  }
  expect(table.all()).toEqual([]);
});

describe("allowances", () => {
  const spend = (allowances: ControlFrameAllowances, frame: ControlFrame, times: number): void => {
    for (let i = 0; i < times; i++) allowances.spend(frame);
  };

  test("end at their stock, and count once", () => {
    const counts = new ServerCounts();
    const allowances = new ControlFrameAllowances(counts);
    spend(allowances, ControlFrame.settings, 64);
    expect(() => allowances.spend(ControlFrame.settings)).toThrow("settings_flood");
    expect(counts.troubles.settings_flood).toBe(1);
  });

  test("grow with time, but not above their stock", () => {
    const allowances = new ControlFrameAllowances(new ServerCounts());
    spend(allowances, ControlFrame.ping, 256);
    allowances.refill(1);
    spend(allowances, ControlFrame.ping, 32);
    expect(() => allowances.spend(ControlFrame.ping)).toThrow();
    allowances.refill(1_000_000);
    expect(() => spend(allowances, ControlFrame.ping, 257)).toThrow();
  });

  test("grow with the calls that were served", () => {
    const allowances = new ControlFrameAllowances(new ServerCounts());
    for (let call = 0; call < 10_000; call++) {
      allowances.spend(ControlFrame.ping);
      allowances.noteCall();
    }
    expect(() => spend(allowances, ControlFrame.ping, 600)).toThrow("ping_flood");
  });
});

test.each([
  { message: "plain text, ~ and all", encoded: "plain text, ~ and all" },
  { message: "100 %", encoded: "100 %25" },
  { message: "a\r\nb", encoded: "a%0D%0Ab" },
  { message: "gr\u00fc\u00df", encoded: "gr%C3%BC%C3%9F" },
  { message: "\ud800", encoded: "%EF%BF%BD" },
  { message: "x".repeat(2_000), encoded: "x".repeat(1_024) },
])("the message $message is written $encoded", ({ message, encoded }) => {
  expect(percentEncoded(message)).toBe(encoded);
});

test("the blocks of good answers are the same bytes, and few, from the third answer on", () => {
  const blocks = new ResponseBlocks();
  for (let i = 0; i < 2; i++) {
    blocks.head();
    blocks.okTrailers();
  }
  expect(blocks.head()).toBe(blocks.head());
  expect(blocks.okTrailers()).toBe(blocks.okTrailers());
  expect(blocks.head().length + blocks.okTrailers().length).toBe(3);
});

describe("deadlines", () => {
  test("ring when the first is due, then when the next one is", () => {
    vi.useFakeTimers();
    const clock = new ManualClock(0);
    const rung: number[] = [];
    const due = [5_000, 9_000];
    const deadlines = new Deadlines(clock, (nowUs) => {
      rung.push(nowUs);
      while ((due[0] ?? Number.POSITIVE_INFINITY) <= nowUs) due.shift();
      return due[0] ?? Number.POSITIVE_INFINITY;
    });
    deadlines.note(9_000);
    deadlines.note(5_000);
    deadlines.note(7_000_000);
    for (let ms = 0; ms < 20; ms++) {
      clock.advanceMs(1);
      vi.advanceTimersByTime(1);
    }
    deadlines.close();
    vi.useRealTimers();
    expect(rung).toEqual([5_000, 9_000]);
  });

  test("that take long to look through take a tenth of the time at most, however many are due", () => {
    vi.useFakeTimers();
    const clock = new ManualClock(0);
    let spentUs = 0;
    const deadlines = new Deadlines(clock, (nowUs) => {
      clock.advanceUs(2_000);
      spentUs += 2_000;
      return nowUs + 1_000;
    });
    deadlines.note(1_000);
    for (let ms = 0; ms < 1_000; ms++) {
      clock.advanceMs(1);
      vi.advanceTimersByTime(1);
      // A caller who asks for a millisecond, again and again.
      deadlines.note(clock.nowUs() + 1_000);
    }
    deadlines.close();
    vi.useRealTimers();
    expect(spentUs).toBeGreaterThan(50_000);
    expect(spentUs).toBeLessThan(120_000);
  });
});
