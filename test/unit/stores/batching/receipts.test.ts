// Receipts wait for the next call to the store, each queue's by themselves, and no more than so many.

import { describe, expect, test } from "vitest";
import { Algorithm } from "../../../../src/engine/domain/limit.ts";
import type { Receipt } from "../../../../src/stores/batching/batch.ts";
import { Receipts } from "../../../../src/stores/batching/queues.ts";
import { makeLimit } from "../../../support/builders.ts";

const limit = makeLimit({ amount: 7 });
const receiptOf = (bucketKey: string, sinceUs = 0): Receipt => ({
  bucketKey,
  limit,
  cost: 1,
  paidAtUs: 5,
  holdId: "",
  sinceUs,
});
const MINUTE_US = 60_000_000;

let dropped = 0;
const open = () => {
  dropped = 0;
  return new Receipts(
    (count) => {
      dropped += count;
    },
    () => undefined,
  );
};

function movedFrom(receipts: Receipts, queue = 0, nowUs = 0): string[] {
  const into: Receipt[] = [];
  receipts.moveTo(into, queue, nowUs);
  return into.map(({ bucketKey }) => bucketKey);
}

describe("receipts", () => {
  test("leave in the order they came, as many as one call carries", () => {
    const receipts = open();
    for (let i = 0; i < 70; i++) receipts.add(receiptOf(`k${i}`), 0);
    expect(movedFrom(receipts)).toEqual(Array.from({ length: 64 }, (_, i) => `k${i}`));
    expect(receipts.isEmpty).toBe(false);
    expect(movedFrom(receipts)).toEqual(["k64", "k65", "k66", "k67", "k68", "k69"]);
    expect(receipts.isEmpty).toBe(true);
    expect(movedFrom(receipts)).toEqual([]);
  });

  test("on sliding logs weigh as much as many others", () => {
    const receipts = open();
    const log = makeLimit({ algorithm: Algorithm.slidingLog });
    for (let i = 0; i < 6; i++) receipts.add({ ...receiptOf(`log${i}`), limit: log }, 0);
    receipts.add(receiptOf("k"), 0);
    expect(movedFrom(receipts)).toEqual(["log0", "log1", "log2", "log3", "log4"]);
    expect(movedFrom(receipts)).toEqual(["log5", "k"]);
  });

  test("that wait too long for a store give way to newer ones", () => {
    const receipts = open();
    for (let i = 0; i <= 10_000; i++) receipts.add(receiptOf(`k${i}`), 0);
    let left = 0;
    let first: string | undefined;
    while (!receipts.isEmpty) {
      const moved = movedFrom(receipts);
      first ??= moved[0];
      left += moved.length;
    }
    expect({ first, left, dropped }).toEqual({ first: "k1000", left: 9_001, dropped: 1_000 });
  });

  test("that wait for longer than ten minutes are given up, and counted", () => {
    const receipts = open();
    receipts.add(receiptOf("old", 0), 0);
    receipts.add(receiptOf("new", MINUTE_US), 0);
    expect(movedFrom(receipts, 0, 10.5 * MINUTE_US)).toEqual(["new"]);
    expect([dropped, receipts.isEmpty]).toEqual([1, true]);
    for (let i = 0; i < 3; i++) receipts.add(receiptOf(`k${i}`), i);
    receipts.end();
    expect([dropped, receipts.isEmpty]).toEqual([4, true]);
  });
});
