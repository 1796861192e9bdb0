// What holds for every group: all or nothing, and the verdict that the kinds make.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Algorithm } from "../../src/engine/domain/limit.ts";
import { Kind, Mode, Outcome, TakeGroup, Verdict } from "../../src/engine/domain/take.ts";
import { MemoryStore } from "../../src/stores/memory/memory-store.ts";
import { type Ask, fillGroup } from "../contract/store-harness.ts";
import { makeLimit } from "../support/builders.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { runs } from "../support/runs.ts";
import { type History, type HistoryStep, type HistoryTake, histories, limitOf } from "./histories.ts";
import { ReferenceStore } from "./reference-store.ts";
import { answerOf, type GroupAnswer, replayAtOnce, replayOnReference } from "./replay.ts";

const SHAPE = {
  limitsMax: 4,
  identities: 2,
  takesMax: 6,
  stepsMax: 12,
  kinds: [Kind.ordinary, Kind.ordinary, Kind.quota, Kind.shadow],
  givesBack: true,
} as const;

/** Refuses whatever it is part of. */
const FULL = makeLimit({ algorithm: Algorithm.fixedWindow, amount: 0, windowSeconds: 11 });

/** Takes of each descriptor with their answers. */
function descriptorsOf(step: HistoryStep, answer: GroupAnswer | undefined) {
  const byDescriptor = new Map<number, { take: HistoryTake; answer: GroupAnswer["takes"][number] }[]>();
  step.takes.forEach((take, index) => {
    const takeAnswer = answer?.takes[index];
    if (takeAnswer === undefined) throw new RangeError(`no answer ${index}`);
    const entries = byDescriptor.get(take.descriptor) ?? [];
    entries.push({ take, answer: takeAnswer });
    byDescriptor.set(take.descriptor, entries);
  });
  return [...byDescriptor.values()];
}

const isOver = (outcome: Outcome) => outcome === Outcome.over || outcome === Outcome.never;

/** Where all buckets of a history stand after it. */
function standings(history: History, store: ReferenceStore, clock: ManualClock): unknown[] {
  return history.limits.flatMap((numbers) =>
    ["0", "1"].map((identity) => {
      const group = new TakeGroup();
      fillGroup(group, [{ limit: limitOf(numbers), identity, mode: Mode.peek }], "", false);
      store.take(group);
      return { at: clock.nowUs(), ...answerOf(group) };
    }),
  );
}

describe("groups", () => {
  test("the verdict follows from the kinds of the descriptors that are over, and a descriptor is paid whole or not at all", () => {
    fc.assert(
      fc.property(histories(SHAPE), (history) => {
        const replayed = replayOnReference(history);
        const expected = history.steps.map((step, index) => {
          const descriptors = descriptorsOf(step, replayed[index]).map((entries) => ({
            kind: entries[0]?.take.kind,
            isOver: entries.some(({ answer }) => isOver(answer.outcome)),
            paid: entries.filter(({ take }) => take.mode === Mode.pay).map(({ answer }) => answer.paid),
          }));
          const quota = descriptors.filter(({ kind }) => kind === Kind.quota);
          const isRefused =
            descriptors.some(({ kind, isOver }) => kind === Kind.ordinary && isOver) ||
            (quota.length > 0 && quota.every(({ isOver }) => isOver) && !step.hasSpareQuota);
          const torn = descriptors.filter(({ isOver, paid }) =>
            paid.some((isPaid) => isPaid !== (!isRefused && !isOver)),
          );
          return { verdict: isRefused ? Verdict.refused : Verdict.allowed, torn };
        });
        expect(expected.flatMap(({ torn }) => torn)).toEqual([]);
        expect(replayed.map(({ verdict }) => verdict)).toEqual(expected.map(({ verdict }) => verdict));
      }),
      { numRuns: runs(200) },
    );
  });

  // Promise(calls): A refused call charges none of its limits.
  test("a refused group leaves every bucket as it was", () => {
    fc.assert(
      fc.property(histories({ ...SHAPE, modes: [Mode.pay, Mode.peek] }), (history) => {
        const clock = new ManualClock();
        const store = new ReferenceStore(clock);
        replayAtOnce(store, clock, history);
        const before = standings(history, store, clock);
        const last = history.steps.at(-1);
        const refused: Ask[] = [];
        for (const { limit, ...take } of last?.takes ?? []) {
          const numbers = history.limits[limit];
          if (numbers !== undefined) refused.push({ ...take, limit: limitOf(numbers) });
        }
        refused.push({ limit: FULL, descriptor: 99 });
        const group = new TakeGroup();
        fillGroup(group, refused, "", false);
        store.take(group);
        expect(group.verdict).toBe(Verdict.refused);
        expect(standings(history, store, clock)).toEqual(before);
      }),
    );
  });

  test("a group given back at once was never paid", () => {
    fc.assert(
      fc.property(
        histories({ ...SHAPE, modes: [Mode.pay, Mode.peek, Mode.postPaid], sharesBuckets: false }),
        (history) => {
          const clock = new ManualClock();
          const store = new ReferenceStore(clock);
          const steps = history.steps.slice(0, -1);
          replayAtOnce(store, clock, { ...history, steps });
          const last = history.steps.slice(-1).map((step) => ({ ...step, isGivenBack: true }));
          const startUs = steps.length === 0 ? history.startUs : clock.nowUs();
          clock.setUs(startUs + (last[0]?.advanceUs ?? 0));
          const before = standings(history, store, clock);
          const [answer] = replayAtOnce(store, clock, { ...history, startUs, steps: last });
          // Of a post-paid hit that was recorded in part, that part is not given back: it errs to the strict side.
          fc.pre(answer?.takes.every(({ cappedHits }) => cappedHits === 0) === true);
          expect(standings(history, store, clock)).toEqual(before);
        },
      ),
    );
  });

  // Limits that share a bucket keep it as long as the one that paid last needs it; a Map keeps everything.
  test("memory answers as a plain Map does, step by step", () => {
    fc.assert(
      fc.property(histories({ ...SHAPE, identities: 30, stepsMax: 30, sharesBuckets: false }), (history) => {
        const clock = new ManualClock();
        const store = new MemoryStore({ clock });
        expect(replayAtOnce(store, clock, history)).toEqual(replayOnReference(history));
        void store.close();
      }),
    );
  });
});
