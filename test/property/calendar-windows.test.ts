// However processes disagree about where windows end, and whatever they give back: no more than the amount stands paid in a
// window that the store holds, windows don't overlap, and each ends at an edge that one of them has.

import fc from "fast-check";
import { expect, test } from "vitest";
import { Algorithm } from "../../src/engine/domain/limit.ts";
import type { Take, TakeGroup } from "../../src/engine/domain/take.ts";
import { Mode } from "../../src/engine/domain/take.ts";
import { memoryHarness } from "../contract/memory-harness.ts";
import { ask, START_US } from "../contract/store-harness.ts";
import { regularWindows } from "../support/builders.ts";
import { runs } from "../support/runs.ts";
import { limitOf } from "./histories.ts";

// So that ends of windows of the same time differ by less than any change of a zone can move one (EDGE_SKEW_US_MAX).
const WINDOW_SECONDS = 64_800;
const AMOUNT = 10;

/** A limit of ten a window, by the zone data of one process. */
const limitBy = (zoneSeed: number) =>
  limitOf({
    algorithm: Algorithm.calendarWindow,
    amount: AMOUNT,
    burst: AMOUNT,
    debtMax: AMOUNT,
    windowSeconds: WINDOW_SECONDS,
    zoneSeed,
  });

const STEP = fc.record({
  process: fc.nat({ max: 2 }),
  cost: fc.integer({ min: 1, max: 6 }),
  mode: fc.constantFrom(Mode.pay, Mode.pay, Mode.pay, Mode.peek),
  advanceUs: fc.oneof(
    fc.constant(0),
    fc.integer({ min: 1, max: 3_600_000_000 }),
    fc.integer({ min: 0, max: WINDOW_SECONDS * 1_500_000 }),
  ),
  /** Which earlier payment is given back before this step; none if there isn't one left. */
  givesBack: fc.option(fc.nat(), { freq: 3 }),
});

interface Payment {
  readonly group: TakeGroup;
  readonly endUs: number;
  readonly cost: number;
}

// Promise(calendar): A window never grants more than its amount, however processes disagree or give back.
test("no more than the amount stands paid in a window that the store holds", async () => {
  let windows = 0;
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.integer({ min: 0, max: 5 }), { minLength: 1, maxLength: 3 }),
      fc.array(STEP, { minLength: 1, maxLength: 60 }),
      async (seeds, steps) => {
        const harness = memoryHarness();
        const limits = seeds.map(limitBy);
        const paidBy = new Map<number, number>();
        const payments: Payment[] = [];
        let heldUntilUs = START_US;
        for (const { process, cost, mode, advanceUs, givesBack } of steps) {
          harness.setUs(harness.nowUs() + advanceUs);
          if (givesBack !== null && payments.length > 0) {
            const [payment] = payments.splice(givesBack % payments.length, 1) as [Payment];
            await harness.giveBack(payment.group);
            paidBy.set(payment.endUs, (paidBy.get(payment.endUs) ?? 0) - payment.cost);
          }
          const limit = limits[process % limits.length] ?? limitBy(0);
          const group = await ask(harness, [{ limit, cost, mode }]);
          const take = group.takes[0] as Take;
          if (!take.paid) continue;
          const endUs = harness.nowUs() + take.resetUs;
          const standsPaid = (paidBy.get(endUs) ?? 0) + cost;
          expect(standsPaid).toBeLessThanOrEqual(AMOUNT);
          expect(take.remaining).toBe(AMOUNT - standsPaid);
          if (!paidBy.has(endUs)) {
            // Another window begins only once the one before is over, or nothing stands paid in it.
            const isFree = harness.nowUs() >= heldUntilUs || paidBy.get(heldUntilUs) === 0;
            expect(isFree).toBe(true);
            expect(seeds.some((seed) => hasEdge(seed, endUs))).toBe(true);
            windows++;
          }
          heldUntilUs = endUs;
          paidBy.set(endUs, standsPaid);
          payments.push({ group, endUs, cost });
        }
        await harness.store.close();
      },
    ),
    { numRuns: runs(300) },
  );
  expect(windows).toBeGreaterThan(20);
});

function hasEdge(seed: number, us: number): boolean {
  const calendar = regularWindows(WINDOW_SECONDS, seed);
  calendar.turnTo(us);
  return calendar.startUs === us;
}
