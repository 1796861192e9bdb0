// Parts of the fast lane that stand alone: what is remembered of blocks, streams and floods, and how a message is
// written.

import { describe, expect, test } from "vitest";
import { ControlFrame, ControlFrameAllowances } from "../src/bounds.ts";
import { HeaderMemory, REMEMBERED_BLOCK_BYTES_MAX, RequestHead, ResponseBlocks } from "../src/header-blocks.ts";

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
    const allowances = new ControlFrameAllowances();
    spend(allowances, ControlFrame.ping, 256);
    allowances.refill(1);
    spend(allowances, ControlFrame.ping, 32);
    expect(() => allowances.spend(ControlFrame.ping)).toThrow();
    allowances.refill(1_000_000);
    expect(() => spend(allowances, ControlFrame.ping, 257)).toThrow();
  });

  test("grow with the calls that were served", () => {
    const allowances = new ControlFrameAllowances();
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
