// What is to be given back when a store closes leaves before it is closed, over however many queues it lies. The test
// stands where a server would.

import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { TakeGroup, Verdict } from "../../../../src/engine/domain/take.ts";
import { makeLimit } from "../../../support/builders.ts";
import { ManualClock } from "../../../support/manual-clock.ts";
import { runs } from "../../../support/runs.ts";
import { allowing, giveBacksOf, SmallBatch, TestIntake } from "../../../support/test-intake.ts";

const limit = makeLimit({ amount: 7 });
const START_US = new ManualClock().nowUs();

interface Server {
  /** Calls that the server takes at once; the others wait for a free connection. */
  readonly connections: number;
  readonly answerMs: number;
}

/** An intake whose server answers in its time; `settled` collects what came back to it. */
function open({ connections, answerMs }: Server): { intake: TestIntake; settled: number[] } {
  const settled: number[] = [];
  const clock = new ManualClock();
  let free = connections;
  const answer = (intake: TestIntake, batch: SmallBatch) => {
    free++;
    for (const { paidAtUs } of giveBacksOf(batch)) settled.push(paidAtUs);
    intake.answers.answer(batch, allowing(batch, clock.nowUs()));
    intake.schedule();
  };
  const intake = new TestIntake({
    options: { clock, deadlineMs: 15 },
    newBatch: (queue) => new SmallBatch(queue, 64),
    isOneByOne: connections !== Number.POSITIVE_INFINITY,
    send: (intake) => {
      while (free > 0) {
        const batch = intake.next();
        if (batch === undefined) break;
        free--;
        // Before this turn is over, or some time later.
        if (answerMs === 0) queueMicrotask(() => answer(intake, batch));
        else setTimeout(answer, answerMs, intake, batch);
      }
    },
  });
  return { intake, settled };
}

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

describe("closing", () => {
  // Promise(hot): A process gives back its leases before it ends.
  test.each([
    { name: "by queues, all over one connection", connections: Number.POSITIVE_INFINITY, queues: 16_384 },
    { name: "over two connections that carry a call each", connections: 2, queues: 1 },
  ])("gives everything back first, $name", async ({ connections, queues }) => {
    const receipts = fc.array(fc.nat({ max: queues - 1 }), { minLength: 1, maxLength: 600, size: "max" });
    await fc.assert(
      fc.asyncProperty(receipts, fc.integer({ min: 0, max: 20 }), async (list, answerMs) => {
        const { intake, settled } = open({ connections, answerMs });
        for (const [i, queue] of list.entries()) {
          intake.giveBacks.add({
            bucketKey: `k${i}`,
            limit,
            cost: 1,
            paidAtUs: i,
            holdId: "",
            sinceUs: START_US,
            queue,
          });
        }
        const wasSettled = intake.drain().then(() => settled.length);
        await vi.runAllTimersAsync();
        expect(await wasSettled).toBe(list.length);
        expect(new Set(settled).size).toBe(list.length);
      }),
      { numRuns: runs(30) },
    );
  });

  test("fails takes that were gathered and never sent, once", () => {
    const { intake } = open({ connections: 0, answerMs: 0 });
    const group = new TakeGroup();
    group.add(limit).bucketKey = "k";
    const settled = vi.fn();
    expect(intake.take(group, { answered: settled }, 0)).toBe(false);
    intake.end();
    expect(group).toMatchObject({ verdict: Verdict.failed, failure: { code: "STORE_UNREACHABLE" } });
    expect(settled).toHaveBeenCalledOnce();
  });

  test("waits a second at most for a server that answers nothing", async () => {
    const { intake } = open({ connections: Number.POSITIVE_INFINITY, answerMs: 3_600_000 });
    intake.giveBacks.add({ bucketKey: "k", limit, cost: 1, paidAtUs: 1, holdId: "", sinceUs: START_US, queue: 0 });
    const closed = vi.fn();
    void intake.drain().then(closed);
    await vi.advanceTimersByTimeAsync(1_500);
    expect(closed).toHaveBeenCalled();
  });
});
