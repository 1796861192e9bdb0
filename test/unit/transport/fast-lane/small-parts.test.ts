// Parts of the fast lane that stand alone: what is remembered of blocks, streams and floods, and how a message is written.

import { describe, expect, test, vi } from "vitest";
import { ControlFrame, ControlFrameAllowances, ServerCounts } from "../../../../src/grpc/transport/fast-lane/bounds.ts";
import { Deadlines } from "../../../../src/grpc/transport/fast-lane/deadlines.ts";
import { HeaderMemory, REMEMBERED_BLOCK_BYTES_MAX } from "../../../../src/grpc/transport/fast-lane/header-memory.ts";
import { RequestHead } from "../../../../src/grpc/transport/fast-lane/request-head.ts";
import { ResponseBlocks } from "../../../../src/grpc/transport/fast-lane/response-blocks.ts";
import { ManualClock } from "../../../support/manual-clock.ts";

describe("the memory of header blocks", () => {
  const head = new RequestHead();
  const learn = (memory: HeaderMemory, bytes: Buffer): void => {
    for (let i = 0; i < 2; i++) {
      expect(memory.find(bytes, 0, bytes.length, 1)).toBeUndefined();
      memory.remember(bytes, 0, bytes.length, 1, head);
    }
  };

  test("takes no block for another, and does not keep the buffer that one came in", () => {
    const memory = new HeaderMemory();
    const block = Buffer.from("a block of headers");
    const bytes = Buffer.from(block);
    learn(memory, bytes);
    bytes.fill(0);
    for (let i = 0; i < 100_000; i++) {
      const other = Buffer.from(`a block of ${i}`);
      if (memory.find(other, 0, other.length, 1) !== undefined) throw new Error(`took ${i} for what was learnt`);
    }
    expect(memory.find(block, 0, block.length, 1)).toBe(head);
  });

  test("leaves long blocks alone", () => {
    const memory = new HeaderMemory();
    const long = Buffer.alloc(REMEMBERED_BLOCK_BYTES_MAX + 1);
    learn(memory, long);
    expect(memory.find(long, 0, long.length, 1)).toBeUndefined();
  });
});

describe("allowances", () => {
  const spend = (allowances: ControlFrameAllowances, frame: ControlFrame, times: number): void => {
    for (let i = 0; i < times; i++) allowances.spend(frame);
  };

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
