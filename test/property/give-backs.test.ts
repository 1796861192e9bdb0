// Whatever becomes of the calls that carry them: what is to be given back reaches its bucket at most once, and what does
// not reach it is counted. The test stands where a server would.

import fc from "fast-check";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { StoreError } from "../../src/base/errors.ts";
import { TakeGroup } from "../../src/engine/domain/take.ts";
import { SILENT_STORE_OBSERVER } from "../../src/stores/store-observer.ts";
import { makeLimit } from "../support/builders.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { runs } from "../support/runs.ts";
import { allowing, giveBacksOf, SmallBatch, TestIntake } from "../support/test-intake.ts";

const limit = makeLimit({ amount: 7 });
const failed = new StoreError("STORE_COMMAND", "the server refuses");

type Event =
  | { readonly what: "add"; readonly slot: number; readonly count: number }
  | { readonly what: "take"; readonly slot: number }
  | { readonly what: "pass"; readonly ms: number }
  /** From now on each call that is sent ends like this, after so long. */
  | { readonly what: "server"; readonly does: "runs" | "refuses" | "loses before" | "loses after" | "keeps silent" }
  | { readonly what: "up"; readonly isUp: boolean };

const slot = fc.nat({ max: 3 });
const event: fc.Arbitrary<Event> = fc.oneof(
  fc.record({ what: fc.constant("add" as const), slot, count: fc.integer({ min: 1, max: 90 }) }),
  fc.record({ what: fc.constant("take" as const), slot }),
  fc.record({ what: fc.constant("pass" as const), ms: fc.oneof(fc.nat({ max: 20 }), fc.nat({ max: 900_000 })) }),
  fc.record({
    what: fc.constant("server" as const),
    does: fc.constantFrom("runs", "refuses", "loses before", "loses after", "keeps silent" as const),
  }),
  fc.record({ what: fc.constant("up" as const), isUp: fc.boolean() }),
);

/** An intake, and a server that does as it is told. */
class Rig {
  readonly #clock = new ManualClock();
  does: (Event & { what: "server" })["does"] = "runs";
  added = 0;
  keptPaid = 0;
  /** Given back by calls whose reply was lost: counted, because nobody can know. */
  ranAndLost = 0;
  /** How often each was given back. */
  readonly givenBack = new Map<number, number>();
  readonly #unanswered: (() => void)[] = [];
  readonly intake: TestIntake;

  constructor(ways: "all" | "one by one") {
    const keptPaid = (takes: number) => {
      this.keptPaid += takes;
    };
    const observer = { ...SILENT_STORE_OBSERVER, keptPaid };
    this.intake = new TestIntake({
      options: { clock: this.#clock, deadlineMs: 15, observer },
      newBatch: (slot) => new SmallBatch(slot, 64),
      isOneByOne: ways === "one by one",
      send: (intake) => {
        if (ways === "all") for (const batch of intake.ready()) this.#answer(batch);
        else {
          const batch = intake.next();
          if (batch === undefined) return;
          this.#answer(batch);
          intake.schedule();
        }
      },
    });
  }

  async apply(event: Event): Promise<void> {
    if (event.what === "server") this.does = event.does;
    else if (event.what === "up") this.#setUp(event.isUp);
    else if (event.what === "take") this.#take(event.slot);
    else if (event.what === "add") for (let i = 0; i < event.count; i++) this.#add(event.slot);
    else await this.pass(event.ms);
    await this.pass(0);
  }

  async pass(ms: number): Promise<void> {
    this.#clock.advanceMs(ms);
    await vi.advanceTimersByTimeAsync(ms);
    await vi.advanceTimersByTimeAsync(1);
  }

  /** The connection is lost: what was not answered never will be. */
  loseAll(): void {
    for (const lose of this.#unanswered.splice(0)) lose();
  }

  #add(slot: number): void {
    const receipt = {
      bucketKey: `k${slot}`,
      limit,
      cost: 1,
      paidAtUs: this.added++,
      holdId: "",
      sinceUs: this.#clock.nowUs(),
      queue: slot,
    };
    this.intake.giveBacks.add(receipt);
  }

  #take(slot: number): void {
    const group = new TakeGroup();
    group.add(limit).bucketKey = `k${slot}`;
    this.intake.take(group, { answered: () => undefined }, slot);
  }

  #setUp(isUp: boolean): void {
    if (this.intake.isUp && !isUp) this.loseAll();
    this.intake.isUp = isUp;
    if (isUp) this.intake.onUp();
    else this.intake.failGathered();
  }

  #answer(batch: SmallBatch): void {
    const { answers } = this.intake;
    if (this.does === "refuses") answers.fail(batch, failed);
    else if (this.does === "keeps silent") this.#unanswered.push(() => answers.lose(batch, failed));
    else {
      if (this.does !== "loses before") this.#run(batch);
      if (this.does === "loses after") this.ranAndLost += giveBacksOf(batch).length;
      if (this.does !== "runs") answers.lose(batch, failed);
      else answers.answer(batch, allowing(batch));
    }
  }

  #run(batch: SmallBatch): void {
    // Each has a time of payment of its own.
    for (const { paidAtUs } of giveBacksOf(batch)) {
      this.givenBack.set(paidAtUs, (this.givenBack.get(paidAtUs) ?? 0) + 1);
    }
  }
}

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

// Promise(outages): A payment is given back at most once; payments that can't be given back are counted.
test.each(["all", "one by one"] as const)(
  "no payment is undone twice, and those that never are, are counted; batches leave $0",
  async (ways) => {
    await fc.assert(
      fc.asyncProperty(fc.array(event, { maxLength: 30 }), async (events) => {
        const rig = new Rig(ways);
        for (const one of events) {
          await rig.apply(one);
        }
        expect([...rig.givenBack.values()].every((times) => times === 1)).toBe(true);
        // The server is well again: what still waits arrives, or has waited for too long.
        rig.loseAll();
        await rig.apply({ what: "server", does: "runs" });
        await rig.apply({ what: "up", isUp: true });
        for (let i = 0; i < 40; i++) {
          await rig.apply({ what: "take", slot: 0 });
          await rig.pass(300);
        }
        rig.intake.end();
        expect([...rig.givenBack.values()].every((times) => times === 1)).toBe(true);
        expect(rig.givenBack.size + rig.keptPaid - rig.ranAndLost).toBe(rig.added);
      }),
      { numRuns: runs(60) },
    );
  },
);

test("a server that refuses for a while loses no give-back, and is asked less and less often meanwhile", async () => {
  const rig = new Rig("all");
  rig.does = "refuses";
  let calls = 0;
  const { answers } = rig.intake;
  const { fail } = answers;
  answers.fail = (batch, error) => {
    calls++;
    fail.call(answers, batch, error);
  };
  await rig.apply({ what: "add", slot: 0, count: 100 });
  for (let i = 0; i < 600; i++) await rig.pass(100);
  expect(calls).toBeGreaterThan(50);
  expect(calls).toBeLessThan(200);
  await rig.apply({ what: "server", does: "runs" });
  await rig.pass(2_000);
  expect([rig.givenBack.size, rig.keptPaid]).toEqual([100, 0]);
});
