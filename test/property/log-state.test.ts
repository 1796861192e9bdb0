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
    const blocksOf = (payments: number) => Math.ceil(payments / 15);
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

  test("grows by a block when it says that it needs one, and has room for it within its bytes alone", () => {
    const bytes = 20 * BLOCK_BYTES;
    const blocks = new LogBlocks(ownMemory(logRoomBytes(bytes)), { at: 0, bytes });
    const log = new LogState();
    let place = 0;
    const used = [];
    for (let atUs = 1; ; atUs++) {
      log.advance(atUs, 0);
      if (!blocks.hasRoomForPayment(log)) break;
      log.add(1);
      place = blocks.write(place, log);
      used.push(blocks.usedBytes / BLOCK_BYTES);
    }
    expect(used).toEqual(Array.from({ length: 300 }, (_, i) => Math.ceil((i + 1) / 15)));
    const other = new LogState();
    other.clear(1);
    expect(blocks.hasRoomForPayment(other)).toBe(false);
    other.add(1);
    expect(blocks.hasRoomForPayment(other)).toBe(true);
  });
});
