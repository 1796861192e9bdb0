// What the denial memory promises: it says what the store behind it would say, and is late by a second at most where
// somebody else gives something back.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Algorithm } from "../../src/engine/domain/limit.ts";
import { Kind, Mode, Outcome, Source, TakeGroup, Verdict } from "../../src/engine/domain/take.ts";
import { DENIAL_US_MAX, DenialMemory } from "../../src/stores/denials/denial-memory.ts";
import { fillGroup } from "../contract/store-harness.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { runs } from "../support/runs.ts";
import { type History, type HistoryShape, histories, limitOf, withPriorities } from "./histories.ts";
import { ReferenceStore } from "./reference-store.ts";
import { answerOf, asksOf, type GroupAnswer, MUST_ANSWER_AT_ONCE } from "./replay.ts";

const SHAPE = {
  limitsMax: 3,
  identities: 2,
  takesMax: 3,
  stepsMax: 20,
  sharesBuckets: false,
  kinds: [Kind.ordinary, Kind.ordinary, Kind.quota, Kind.shadow],
} as const;

/** Callers that keep asking, of small limits, many times a second: long steps leave nothing to remember. */
function hurried(history: History): History {
  const steps = history.steps.flatMap((step, i) => {
    const takes = step.takes.map((take) => ({ ...take, cost: take.cost > 30 ? take.cost : (take.cost % 4) + 1 }));
    const again = { ...step, takes, advanceUs: step.advanceUs % 90_001, isGivenBack: false };
    return [
      { ...again, advanceUs: i % 4 === 3 ? step.advanceUs : again.advanceUs },
      ...Array(5).fill(again),
      { ...step, takes, advanceUs: 7 },
    ];
  });
  const limits = history.limits.map((numbers, i) => ({
    ...numbers,
    amount: numbers.amount % 8,
    burst: numbers.algorithm === Algorithm.tokenBucket ? Math.max(1, numbers.burst % 8) : numbers.amount % 8,
    debtMax: 40,
    // Of windows that are cut none become equal: their limits would share buckets.
    windowSeconds: Math.min(numbers.windowSeconds, 3_600 - i),
  }));
  return { ...history, limits, steps };
}

const hurriedOf = (shape: HistoryShape) => histories({ ...shape, givesBack: true }).map(hurried);

interface Told extends GroupAnswer {
  readonly source: Source;
}

/** Plays a history on several processes by turns, and the same on a store that remembers nothing. */
function playBoth(history: History, processes: number): { told: Told[]; plain: Told[] } {
  const limits = history.limits.map(limitOf);
  const clock = new ManualClock(history.startUs);
  const shared = new ReferenceStore(clock);
  const behind = Array.from({ length: processes }, () => new DenialMemory(shared, { clock, entriesMax: 64 }));
  const alone = new ReferenceStore(clock);
  const group = new TakeGroup();
  const told: Told[] = [];
  const plain: Told[] = [];
  history.steps.forEach((step, i) => {
    clock.advanceUs(step.advanceUs);
    const store = behind[i % processes] as DenialMemory;
    for (const [asked, answers] of [
      [store, told],
      [alone, plain],
    ] as const) {
      group.reset();
      fillGroup(group, asksOf(step, limits), "", step.hasSpareQuota);
      asked.take(group, MUST_ANSWER_AT_ONCE);
      answers.push({ ...answerOf(group), source: group.source });
      if (step.isGivenBack) asked.giveBack(group);
    }
  });
  return { told, plain };
}

/** The answer to step `i`, if it is not what the store alone says. */
function wrongIn(history: History, i: number, answer: Told, expected: Told): object[] {
  const isRight =
    answer.verdict === expected.verdict &&
    answer.takes.every((take, t) => {
      const other = expected.takes[t];
      const limit = history.limits[history.steps[i]?.takes[t]?.limit ?? 0];
      if (other === undefined || limit === undefined) return false;
      const isExact = answer.source === Source.store || limit.algorithm === Algorithm.fixedWindow;
      return (
        take.outcome === other.outcome &&
        take.paid === other.paid &&
        (isExact ? take.remaining === other.remaining : take.remaining <= other.remaining) &&
        take.waitUs - other.waitUs >= 0 &&
        // A microsecond is rounded up once more for a cost that the store was not asked about.
        take.waitUs - other.waitUs <= 2 &&
        take.resetUs - other.resetUs >= 0 &&
        take.resetUs - other.resetUs <= 1
      );
    });
  return isRight ? [] : [{ i, answer, expected }];
}

describe("denial memory", () => {
  // Promise(hot): A refusal from memory says what the store would say.
  // Promise(tiers): A remembered refusal of one priority does not refuse the other.
  test.each([
    { name: "calls of one priority hear", played: hurriedOf(SHAPE) },
    // Where a call names one bucket by both priorities, the store itself rounds what returned within a tick.
    { name: "calls of two priorities hear", played: withPriorities(hurriedOf(SHAPE), false) },
    {
      name: "calls of two priorities on one bucket, paid or looked at, hear",
      played: withPriorities(hurriedOf({ ...SHAPE, identities: 1, modes: [Mode.pay, Mode.pay, Mode.peek] }), false),
    },
  ])("$name what the store would say, waits to two microseconds", ({ played }) => {
    let remembered = 0;
    fc.assert(
      fc.property(played, (history) => {
        const { told, plain } = playBoth(history, 1);
        remembered += told.filter(({ source }) => source === Source.denialMemory).length;
        expect(told.flatMap((answer, i) => wrongIn(history, i, answer, plain[i] as Told))).toEqual([]);
      }),
      { numRuns: runs(300) },
    );
    expect(remembered).toBeGreaterThan(runs(250));
  });

  // Promise(hot): Memory refuses nothing that the store would allow, except for a second after another process gives back.
  test("a process never refuses what the store would allow while nobody gives anything back", () => {
    let remembered = 0;
    fc.assert(
      fc.property(histories({ ...SHAPE, modes: [Mode.pay, Mode.pay, Mode.pay, Mode.peek] }).map(hurried), (history) => {
        const { told, plain } = playBoth(history, 3);
        remembered += told.filter(({ source }) => source === Source.denialMemory).length;
        expect(told.map(({ verdict }) => verdict)).toEqual(plain.map(({ verdict }) => verdict));
      }),
      { numRuns: runs(300) },
    );
    expect(remembered).toBeGreaterThan(runs(500));
  });

  // Promise(hot): Memory refuses nothing that the store would allow, except for a second after another process gives back.
  test("what another process gives back shows after a second at the latest", () => {
    fc.assert(
      fc.property(fc.constantFrom(0, 1, 2, 3), fc.integer({ min: 0, max: 2 * DENIAL_US_MAX }), (algorithm, laterUs) => {
        const clock = new ManualClock();
        const shared = new ReferenceStore(clock);
        const [one, other] = [0, 1].map(() => new DenialMemory(shared, { clock, entriesMax: 64 })) as [
          DenialMemory,
          DenialMemory,
        ];
        const limit = limitOf({
          algorithm: algorithm as Algorithm,
          amount: 5,
          burst: 5,
          windowSeconds: 60,
          debtMax: 50,
        });
        const ask = (store: DenialMemory, mode: Mode, cost: number) => {
          const group = new TakeGroup();
          fillGroup(group, [{ limit, mode, cost }], "", false);
          store.take(group, MUST_ANSWER_AT_ONCE);
          return group;
        };
        ask(one, Mode.pay, 5);
        expect(ask(one, Mode.pay, 2)).toMatchObject({ verdict: Verdict.refused, source: Source.store });
        ask(other, Mode.refund, 3);
        clock.advanceUs(laterUs);
        const isLate = laterUs < DENIAL_US_MAX;
        expect(ask(one, Mode.pay, 2)).toMatchObject({
          verdict: isLate ? Verdict.refused : Verdict.allowed,
          source: isLate ? Source.denialMemory : Source.store,
        });
        expect(ask(other, Mode.peek, 1).takes[0]?.outcome).toBe(Outcome.room);
      }),
    );
  });
});
