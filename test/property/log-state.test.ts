// Sliding logs in blocks, against plain lists of payments: many logs in one memory, whatever is paid, advanced and taken off.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { BLOCK_BYTES, LogBlocks } from "../../src/engine/algorithms/log-blocks.ts";
import { LogState } from "../../src/engine/algorithms/log-state.ts";
import { LOG_PAYMENTS_MAX } from "../../src/engine/domain/limit.ts";
import { runs } from "../support/runs.ts";

/** The same as a list. */
class PlainLog {
  payments: { atUs: number; cost: number }[] = [];
  effectiveUs = 0;

  get count(): number {
    return this.payments.length;
  }

  get total(): number {
    return this.payments.reduce((sum, { cost }) => sum + cost, 0);
  }

  get newestUs(): number {
    return this.payments.at(-1)?.atUs ?? Number.NEGATIVE_INFINITY;
  }

  advance(effectiveUs: number, oldestUs: number): void {
    this.effectiveUs = effectiveUs;
    this.payments = this.payments
      .filter(({ atUs }) => atUs > oldestUs)
      .map(({ atUs, cost }) => ({ atUs: Math.min(atUs, effectiveUs), cost }));
  }

  add(cost: number): void {
    const newest = this.payments.at(-1);
    const joins = newest !== undefined && (newest.atUs === this.effectiveUs || this.count === LOG_PAYMENTS_MAX);
    if (joins) this.payments.pop();
    this.payments.push({ atUs: this.effectiveUs, cost: cost + (joins ? newest.cost : 0) });
  }

  timeThatFrees(cost: number): number {
    let left = cost;
    for (const payment of this.payments) {
      left -= payment.cost;
      if (left <= 0) return payment.atUs;
    }
    return Number.NaN;
  }

  takeOffNewest(cost: number): void {
    for (let left = cost; left > 0 && this.count > 0; ) left -= this.#takeOff(this.count - 1, left);
  }

  takeOffAt(timeUs: number, cost: number): void {
    const i = this.payments.findLastIndex(({ atUs }) => atUs === timeUs);
    if (i >= 0) this.#takeOff(i, cost);
  }

  #takeOff(i: number, most: number): number {
    const payment = this.payments[i] as { atUs: number; cost: number };
    const off = Math.min(payment.cost, most);
    if (off === payment.cost) this.payments.splice(i, 1);
    else this.payments[i] = { ...payment, cost: payment.cost - off };
    return off;
  }
}

const amount = fc.oneof(fc.integer({ min: 1, max: 5 }), fc.integer({ min: 1, max: 4_294_967_295 }));
const doing = fc.oneof(
  { arbitrary: fc.record({ what: fc.constant("pay" as const), cost: amount }), weight: 8 },
  fc.record({ what: fc.constant("look" as const), cost: amount }),
  fc.record({ what: fc.constant("takeOffNewest" as const), cost: amount }),
  fc.record({ what: fc.constant("takeOffAt" as const), cost: amount, back: fc.nat({ max: 40 }) }),
  fc.record({ what: fc.constant("drop" as const), cost: amount }),
);
const step = fc.record({
  doing,
  log: fc.nat({ max: 2 }),
  /** Mostly a little time, sometimes enough for all to be old, sometimes a step back. */
  advanceUs: fc.oneof(fc.nat({ max: 2 }), fc.constantFrom(0, 1, 30, 100, 5_000, -3, -200)),
  times: fc.constantFrom(1, 1, 1, 5, 30, 400),
});

describe("a log in blocks", () => {
  test("says what a list says, after any history of any log beside it", () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), fc.constantFrom(5, 60, 10_000), (steps, windowUs) => {
        const blocks = new LogBlocks();
        const log = new LogState();
        const places = [0, 0, 0];
        const plain = [new PlainLog(), new PlainLog(), new PlainLog()];
        let nowUs = 10_000;
        for (const { doing, log: which, advanceUs, times } of steps) {
          const other = plain[which] as PlainLog;
          for (let i = 0; i < times; i++) {
            nowUs = Math.max(1, nowUs + advanceUs);
            const place = places[which] as number;
            if (place === 0) log.clear(nowUs);
            else blocks.read(place, log);
            const effectiveUs = Math.max(nowUs, advanceUs < -100 ? 0 : log.newestUs);
            log.advance(effectiveUs, effectiveUs - windowUs);
            other.advance(effectiveUs, effectiveUs - windowUs);
            const back = doing.what === "takeOffAt" ? doing.back : 0;
            const timeUs = other.payments.at(-1 - back)?.atUs ?? effectiveUs - back;
            for (const one of [log, other]) {
              if (doing.what === "pay") one.add(doing.cost);
              if (doing.what === "takeOffNewest") one.takeOffNewest(doing.cost);
              if (doing.what === "takeOffAt") one.takeOffAt(timeUs, doing.cost);
            }
            expect(standing(log, doing.cost)).toEqual(standing(other, doing.cost));
            if (doing.what === "drop" || log.count === 0) {
              if (place !== 0) blocks.drop(place);
              places[which] = 0;
              other.payments = [];
            } else places[which] = blocks.write(place, log);
          }
        }
        const needed = plain.reduce((sum, { count }) => sum + Math.ceil((1 + 2 * count) / 31) * Math.min(1, count), 0);
        expect(blocks.usedBytes).toBe(needed * BLOCK_BYTES);
        for (const place of places) if (place !== 0) blocks.drop(place);
        expect(blocks.usedBytes).toBe(0);
      }),
      { numRuns: runs(200) },
    );
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

  test("has room reserved before it is paid for, within its bytes", () => {
    const blocks = new LogBlocks(3 * BLOCK_BYTES);
    const logs = Array.from({ length: 4 }, () => new LogState());
    blocks.beginGroup();
    for (const log of logs) log.clear(1);
    expect(logs.map((log) => blocks.reserve(log))).toEqual([true, true, true, false]);
    for (const log of logs.slice(0, 2)) {
      log.add(1);
      blocks.write(0, log);
    }
    blocks.beginGroup();
    for (const log of logs.slice(2)) log.clear(1);
    expect(logs.slice(2).map((log) => blocks.reserve(log))).toEqual([true, false]);
    expect(blocks.bytes).toBe(2 * BLOCK_BYTES);
  });
});

function standing(log: LogState | PlainLog, cost: number): object {
  const { total, count, newestUs } = log;
  const costs = [1, cost, Math.ceil(total / 2), total - 1, total].filter((asked) => asked >= 1 && asked <= total);
  return { total, count, newestUs, frees: costs.map((asked) => log.timeThatFrees(asked)) };
}
