// What is to be given back travels at once or waits, and no more than so much of either.

import { describe, expect, test, vi } from "vitest";
import { StoreError } from "../../../../src/base/errors.ts";
import { Algorithm } from "../../../../src/engine/domain/limit.ts";
import type { TakeListener } from "../../../../src/engine/domain/store.ts";
import { type TakeGroup, Verdict } from "../../../../src/engine/domain/take.ts";
import { GiveBacks } from "../../../../src/stores/batching/give-backs.ts";
import { makeLimit } from "../../../support/builders.ts";
import { ManualClock } from "../../../support/manual-clock.ts";

const bucket = makeLimit({ amount: 7 });
const log = makeLimit({ algorithm: Algorithm.slidingLog });

class Rig {
  readonly #clock = new ManualClock();
  isWell = true;
  keptPaid = 0;
  gaveBack = 0;
  sent: { key: string | undefined; end: (failure?: StoreError) => void }[] = [];
  readonly all = new GiveBacks(
    {
      clock: this.#clock,
      observer: {
        keptPaid: (takes) => {
          this.keptPaid += takes;
        },
        gaveBack: (takes) => {
          this.gaveBack += takes;
        },
      },
      weightMax: 64,
    },
    this,
  );

  gather(group: TakeGroup, then: TakeListener): void {
    const end = (failure?: StoreError) => {
      group.verdict = failure === undefined ? Verdict.allowed : Verdict.failed;
      group.failure = failure;
      then.answered(group, group.generation);
    };
    this.sent.push({ key: group.takes[0]?.bucketKey, end });
  }

  add(bucketKey: string, limit = bucket): void {
    const sinceUs = this.#clock.nowUs();
    this.all.add({ bucketKey, limit, cost: 1, paidAtUs: 5, holdId: "", sinceUs, queue: 0 });
  }

  /** The keys of those sent since the last call. */
  keys(): (string | undefined)[] {
    return this.sent.splice(0).map(({ key }) => key);
  }

  pass(minutes: number): void {
    this.#clock.advanceMs(minutes * 60_000);
  }
}

const REFUSED = new StoreError("STORE_COMMAND", "no");

describe("give-backs", () => {
  test("travel in the order they came, as many as may be under way", () => {
    const rig = new Rig();
    for (let i = 0; i < 70; i++) rig.add(`k${i}`);
    const sent = rig.sent.splice(0);
    expect(sent.map(({ key }) => key)).toEqual(Array.from({ length: 64 }, (_, i) => `k${i}`));
    for (const { end } of sent.slice(0, 2)) end();
    expect(rig.keys()).toEqual(["k64", "k65"]);
    rig.all.sendWaiting(true);
    expect(rig.keys()).toEqual(["k66", "k67", "k68", "k69"]);
    expect([rig.gaveBack, rig.all.isDone]).toEqual([2, false]);
  });

  test("on sliding logs weigh as much as many others", () => {
    const rig = new Rig();
    for (let i = 0; i < 7; i++) rig.add(`log${i}`, log);
    expect(rig.keys()).toEqual(["log0", "log1", "log2", "log3", "log4", "log5"]);
  });

  test("that the server did not run wait for a pause, those that may have run are never sent again", () => {
    vi.useFakeTimers();
    const rig = new Rig();
    for (const key of ["a", "b"]) rig.add(key);
    const [a, b] = rig.sent.splice(0);
    a?.end(REFUSED);
    b?.end(new StoreError("STORE_TIMEOUT", "lost", undefined, true));
    rig.add("c");
    expect([rig.keys(), rig.keptPaid]).toEqual([[], 1]);
    vi.advanceTimersByTime(20);
    expect(rig.keys()).toEqual(["a", "c"]);
    vi.useRealTimers();
  });

  test("that wait too long for a store give way to newer ones", () => {
    const rig = new Rig();
    rig.isWell = false;
    for (let i = 0; i <= 10_000; i++) rig.add(`k${i}`);
    const left = rig.all.drain();
    expect([left[0]?.bucketKey, left.length, rig.keptPaid]).toEqual(["k1000", 9_001, 1_000]);
  });

  test("that wait for longer than ten minutes are given up, and counted", () => {
    const rig = new Rig();
    rig.isWell = false;
    rig.add("old");
    rig.pass(1);
    rig.add("new");
    rig.pass(9.5);
    rig.isWell = true;
    rig.all.sendWaiting();
    const [late] = rig.sent;
    expect([rig.keys(), rig.keptPaid]).toEqual([["new"], 1]);
    rig.isWell = false;
    for (let i = 0; i < 3; i++) rig.add(`k${i}`);
    rig.all.end();
    late?.end(REFUSED);
    expect([rig.keptPaid, rig.all.isDone]).toEqual([5, true]);
  });
});
