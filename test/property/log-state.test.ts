// Sliding logs in blocks of one memory: what they take and free. What they say is held against Lua (agreement.ts) and a plain list.

import { describe, expect, test } from "vitest";
import { Reserved } from "../../src/base/reserved.ts";
import { LogState } from "../../src/engine/algorithms/log-state.ts";
import { NumberLists } from "../../src/engine/algorithms/number-lists.ts";
import { LOG_PAYMENTS_MAX } from "../../src/engine/domain/limit.ts";

describe("a log in blocks", () => {
  test("frees blocks as it shrinks, each log its own", () => {
    const lists = new NumberLists(new Reserved(), 100, 256);
    const logs = [1, 100, 300].map((payments) => {
      const log = new LogState();
      log.clear(1);
      for (let atUs = 1; atUs <= payments; atUs++) {
        log.advance(atUs, 0);
        log.add(1);
      }
      return { log, payments, list: lists.write(0, log.numbers, log.length) };
    });
    expect(lists.used).toBe(logs.reduce((sum, { log }) => sum + Math.ceil(log.length / 31), 0));
    for (const one of logs) {
      one.log.begin((lists.lengthOf(one.list) - 1) / 2);
      lists.read(one.list, one.log.numbers);
      one.log.takeOffNewest(one.payments - 1);
      one.list = lists.write(one.list, one.log.numbers, one.log.length);
      expect([one.log.count, one.log.total]).toEqual([1, 1]);
    }
    expect(lists.used).toBe(logs.length);
    for (const { list } of logs) lists.drop(list);
    expect(lists.used).toBe(0);
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
});
