// Sliding logs in blocks, beside plain lists of entries: many logs in one memory, whatever is paid, viewed and taken off.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { BLOCK_BYTES, ENTRIES_PER_BLOCK, LogBlocks } from "../../src/algorithms/log-blocks.ts";
import { LogState } from "../../src/algorithms/log-state.ts";
import { runs } from "../support/runs.ts";

/** The same as a list. */
class PlainLog {
  entries: { atUs: number; cost: number }[] = [];
  effectiveUs = 0;
  oldestUs = 0;
  pending = 0;

  get counting() {
    return this.entries
      .filter(({ atUs }) => atUs > this.oldestUs)
      .map(({ atUs, cost }) => ({ atUs: Math.min(atUs, this.effectiveUs), cost }));
  }

  get total(): number {
    return this.counting.reduce((sum, { cost }) => sum + cost, this.pending);
  }

  view(effectiveUs: number, oldestUs: number): void {
    Object.assign(this, { effectiveUs, oldestUs, pending: 0 });
  }

  get merges(): boolean {
    const { counting } = this;
    return counting.at(-1)?.atUs === this.effectiveUs;
  }

  timeThatFrees(cost: number): number {
    let left = cost;
    const { counting } = this;
    for (const [i, entry] of counting.entries()) {
      left -= entry.cost;
      if (left > 0) continue;
      return i === counting.length - 1 && this.pending > 0 && this.merges ? this.effectiveUs : entry.atUs;
    }
    return this.effectiveUs;
  }

  commit(): void {
    const { merges, counting } = this;
    const newest = counting.at(-1);
    if (this.pending > 0 && merges && newest !== undefined) {
      counting[counting.length - 1] = { atUs: this.effectiveUs, cost: newest.cost + this.pending };
    } else if (this.pending > 0) counting.push({ atUs: this.effectiveUs, cost: this.pending });
    this.entries = counting;
    this.pending = 0;
  }

  takeOffNewest(cost: number): void {
    let left = cost - Math.min(this.pending, cost);
    this.pending -= cost - left;
    if (left === 0 || this.counting.length === 0) return;
    this.commit();
    while (left > 0) {
      const newest = this.entries.pop();
      if (newest === undefined) return;
      if (newest.cost > left) this.entries.push({ atUs: newest.atUs, cost: newest.cost - left });
      left -= Math.min(left, newest.cost);
    }
  }

  takeOffAt(timeUs: number, cost: number): void {
    if (!this.counting.some(({ atUs }) => atUs === timeUs)) return;
    this.commit();
    const index = this.entries.findLastIndex(({ atUs }) => atUs === timeUs);
    const entry = this.entries[index] as { atUs: number; cost: number };
    if (entry.cost > cost) this.entries[index] = { atUs: timeUs, cost: entry.cost - cost };
    else this.entries.splice(index, 1);
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
  times: fc.constantFrom(1, 1, 1, 5, 30),
});

describe("a log in blocks", () => {
  test("says what a list says, after any history of any log beside it", () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), fc.constantFrom(5, 60, 1_000), (steps, windowUs) => {
        const blocks = new LogBlocks();
        const log = new LogState(blocks);
        const places = [0, 0, 0];
        const plain = [new PlainLog(), new PlainLog(), new PlainLog()];
        let nowUs = 10_000;
        for (const { doing, log: which, advanceUs, times } of steps) {
          const other = plain[which] as PlainLog;
          for (let i = 0; i < times; i++) {
            nowUs = Math.max(1, nowUs + advanceUs);
            const place = places[which] as number;
            if (place === 0) log.clear(nowUs);
            else log.open(place);
            const effectiveUs = Math.max(nowUs, advanceUs < -100 ? 0 : log.newestKeptUs);
            log.view(effectiveUs, effectiveUs - windowUs);
            other.view(effectiveUs, effectiveUs - windowUs);
            act(log, other, doing);
            expect(standing(log, doing.cost)).toEqual(standing(other, doing.cost));
            if (doing.what !== "look") {
              log.commit();
              other.commit();
              expect(standing(log, doing.cost)).toEqual(standing(other, doing.cost));
            }
            if (doing.what === "drop" && log.place !== 0) blocks.dropLog(log.place);
            if (doing.what === "drop") plain[which] = new PlainLog();
            places[which] = doing.what === "drop" ? 0 : log.place;
            if (doing.what === "drop") break;
          }
        }
        // No more than a block for the root and one each for the oldest and the newest are not full.
        const kept = plain.reduce((sum, { entries }) => sum + Math.ceil(entries.length / ENTRIES_PER_BLOCK) + 2, 0);
        expect(blocks.usedBytes).toBeLessThanOrEqual(kept * BLOCK_BYTES);
        for (const place of places) if (place !== 0) blocks.dropLog(place);
        expect(blocks.usedBytes).toBe(0);
      }),
      { numRuns: runs(300) },
    );
  });

  test("sums costs exactly for ever", () => {
    const log = new LogState(new LogBlocks());
    const wrong: number[] = [];
    log.clear(0);
    for (let atUs = 1; atUs <= 3_000; atUs++) {
      log.view(atUs, atUs - 20);
      // Running sums would pass 2^53 hundreds of times.
      log.pending = atUs % 2 === 0 ? 1 : 2 ** 48;
      log.commit();
      if (atUs >= 20 && log.total !== 10 * (2 ** 48 + 1)) wrong.push(atUs);
    }
    expect(wrong).toEqual([]);
  });

  test("has a place promised before it is paid for, within its bytes", () => {
    const blocks = new LogBlocks(3 * BLOCK_BYTES);
    const logs = Array.from({ length: 4 }, () => new LogState(blocks));
    blocks.beginGroup();
    for (const log of logs) log.clear(1);
    expect(logs.map((log) => log.reserve())).toEqual([true, true, true, false]);
    for (const log of logs.slice(0, 2)) {
      log.pending = 1;
      log.commit();
    }
    blocks.beginGroup();
    expect([logs[3]?.reserve(), logs[2]?.reserve(), blocks.bytes]).toEqual([true, false, 2 * BLOCK_BYTES]);
  });
});

function act(log: LogState, plain: PlainLog, doing: { what: string; cost: number; back?: number }): void {
  if (doing.what === "pay" || doing.what === "drop") {
    log.pending += doing.cost;
    plain.pending += doing.cost;
  } else if (doing.what === "takeOffNewest") {
    log.takeOffNewest(doing.cost);
    plain.takeOffNewest(doing.cost);
  } else if (doing.what === "takeOffAt") {
    const timeUs = plain.counting.at(-1 - (doing.back ?? 0))?.atUs ?? plain.effectiveUs - (doing.back ?? 0);
    log.takeOffAt(timeUs, doing.cost);
    plain.takeOffAt(timeUs, doing.cost);
  }
}

function standing(log: LogState | PlainLog, cost: number): object {
  const { total } = log;
  const count = log instanceof LogState ? log.count : log.counting.length;
  const costs = [1, cost, Math.ceil(total / 2), total - 1, total].filter((asked) => asked >= 1 && asked <= total);
  return { total, count, frees: costs.map((asked) => log.timeThatFrees(asked)) };
}
