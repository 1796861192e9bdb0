// Sliding logs in blocks of one memory: what they take, free and reserve. What they say is held against Lua (agreement.ts) and a plain list.

import { describe, expect, test } from "vitest";
import { BLOCK_BYTES, LogBlocks, logRoomBytes } from "../../src/engine/algorithms/log-blocks.ts";
import { LogState } from "../../src/engine/algorithms/log-state.ts";
import { ownMemory } from "../../src/engine/base/journaled-memory.ts";
import { LOG_PAYMENTS_MAX } from "../../src/engine/domain/limit.ts";

describe("a log in blocks", () => {
  test("frees blocks as it shrinks, each log its own", () => {
    const blocks = new LogBlocks(ownMemory(1_000_000), { at: 0, bytes: 900_000 });
    const places = [1, 100, 300].map((payments) => {
      const log = new LogState();
      log.clear(1);
      for (let atUs = 1; atUs <= payments; atUs++) {
        log.advance(atUs, 0);
        log.add(1);
      }
      return { log, payments, place: blocks.write(0, log) };
    });
    const blocksOf = (payments: number) => Math.ceil((1 + 2 * payments) / 31);
    expect(blocks.usedBytes).toBe(places.reduce((sum, { payments }) => sum + blocksOf(payments), 0) * BLOCK_BYTES);
    for (const one of places) {
      blocks.read(one.place, one.log);
      one.log.takeOffNewest(one.payments - 1);
      one.place = blocks.write(one.place, one.log);
      expect([one.log.count, one.log.total]).toEqual([1, 1]);
    }
    expect(blocks.usedBytes).toBe(places.length * BLOCK_BYTES);
    for (const { place } of places) blocks.drop(place);
    expect(blocks.usedBytes).toBe(0);
  });

  test("sums costs exactly for ever", () => {
    const log = new LogState();
    const wrong: number[] = [];
    log.clear(0);
    for (let atUs = 1; atUs <= 3_000; atUs++) {
      log.advance(atUs, atUs - 20);
      // Running sums would pass 2^53 hundreds of times.
      log.add(atUs % 2 === 0 ? 1 : 2 ** 48);
      if (atUs >= 20 && log.total !== 10 * (2 ** 48 + 1)) wrong.push(atUs);
    }
    expect(wrong).toEqual([]);
  });

  test("joins payments beyond the most there may be to the newest, which then counts as paid now", () => {
    const log = new LogState();
    log.clear(1);
    for (let atUs = 1; atUs <= LOG_PAYMENTS_MAX + 1; atUs++) {
      log.advance(atUs, 0);
      log.add(atUs > LOG_PAYMENTS_MAX ? 5 : 1);
    }
    const newestUs = LOG_PAYMENTS_MAX + 1;
    expect([log.count, log.total, log.newestUs]).toEqual([LOG_PAYMENTS_MAX, LOG_PAYMENTS_MAX + 5, newestUs]);
    expect([LOG_PAYMENTS_MAX - 1, LOG_PAYMENTS_MAX].map((cost) => log.timeThatFrees(cost))).toEqual([
      LOG_PAYMENTS_MAX - 1,
      newestUs,
    ]);
  });

  test("has room for further blocks within its bytes, and always for a payment that needs none", () => {
    const bytes = 3 * BLOCK_BYTES;
    const blocks = new LogBlocks(ownMemory(logRoomBytes(bytes)), { at: 0, bytes });
    const log = new LogState();
    const found = [];
    for (let payments = 1; payments <= 46; payments++) {
      log.advance(payments, 0);
      found.push(blocks.hasRoomForPayment(log));
      log.add(1);
      if (payments === 45) blocks.write(0, log);
    }
    expect(found).toEqual(Array.from({ length: 46 }, (_, i) => i < 45));
    const other = new LogState();
    other.clear(1);
    expect([blocks.hasRoomForPayment(other), blocks.usedBytes]).toEqual([false, bytes]);
    other.add(1);
    expect(blocks.hasRoomForPayment(other)).toBe(true);
  });
});
