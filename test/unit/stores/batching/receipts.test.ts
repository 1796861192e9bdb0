// Receipts wait for the next call to the store, each hash slot's by themselves, and no more than so many.

import { describe, expect, test } from "vitest";
import { type Receipt, Receipts } from "../../../../src/stores/batching/receipts.ts";
import { makeLimit } from "../../../support/builders.ts";

const limit = makeLimit({ amount: 7 });
const receiptOf = (bucketKey: string): Receipt => ({ bucketKey, limit, cost: 1, paidAtUs: 5 });

function movedFrom(receipts: Receipts, slot?: number): string[] {
  const into: Receipt[] = [];
  receipts.moveTo(into, slot);
  return into.map(({ bucketKey }) => bucketKey);
}

describe("receipts", () => {
  test("leave in the order they came, as many as one call carries", () => {
    const receipts = new Receipts();
    for (let i = 0; i < 70; i++) receipts.add(receiptOf(`k${i}`));
    expect(movedFrom(receipts)).toEqual(Array.from({ length: 64 }, (_, i) => `k${i}`));
    expect(receipts.isEmpty).toBe(false);
    expect(movedFrom(receipts)).toEqual(["k64", "k65", "k66", "k67", "k68", "k69"]);
    expect(receipts.isEmpty).toBe(true);
    expect(movedFrom(receipts)).toEqual([]);
  });

  test("of one slot never travel with those of another", () => {
    const receipts = new Receipts();
    receipts.add(receiptOf("a"), 7);
    receipts.add(receiptOf("b"), 9);
    receipts.add(receiptOf("c"), 7);
    expect(receipts.oldestSlot).toBe(7);
    expect(movedFrom(receipts, 8)).toEqual([]);
    expect(movedFrom(receipts, 7)).toEqual(["a", "c"]);
    expect(receipts.oldestSlot).toBe(9);
    expect(movedFrom(receipts, 9)).toEqual(["b"]);
    expect(receipts.oldestSlot).toBeUndefined();
  });

  test("that wait too long for a store give way to newer ones", () => {
    const receipts = new Receipts();
    for (let i = 0; i <= 10_000; i++) receipts.add(receiptOf(`k${i}`));
    let left = 0;
    let first: string | undefined;
    while (!receipts.isEmpty) {
      const moved = movedFrom(receipts);
      first ??= moved[0];
      left += moved.length;
    }
    expect({ first, left }).toEqual({ first: "k1000", left: 9_001 });
  });
});
