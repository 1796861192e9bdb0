// A store's arithmetic and the TypeScript's are one: generated histories, replayed on the store and on the reference, give
// equal answers step by step, every field of them. So do a memory store of several threads and one of one thread.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ALGORITHM_NAMES, ALGORITHMS, Algorithm } from "../../src/engine/domain/limit.ts";
import { Kind, Mode, TakeGroup } from "../../src/engine/domain/take.ts";
import { fillGroup, type StoreHarness } from "../contract/store-harness.ts";
import { runs } from "../support/runs.ts";
import {
  calendarNumbers,
  type History,
  type HistoryShape,
  type HistoryStep,
  histories,
  type LimitNumbers,
  limitNumbers,
  limitOf,
  limitsWithHolds,
  withPriorities,
} from "./histories.ts";
import { bucketNumbers } from "./rates.ts";
import { answerOf, type GroupAnswer, replayHistory, replayOnReference } from "./replay.ts";
import { REPLAYED_EDITS, REPLAYED_HISTORIES } from "./replayed.ts";

let replays = 0;
const nextPrefix = () => `h${replays++}:`;
type Change = (histories: fc.Arbitrary<History>) => fc.Arbitrary<History>;
const asTheyAre: Change = (histories) => histories;
/** The answers that the store must give. */
type Expected = (history: History) => GroupAnswer[];

const isPlain = ({ takes: [take, ...others] }: HistoryStep) => take?.mode === Mode.pay && others.length === 0;

/**
 * Four steps at a time happen at one moment, so that they travel in one call. The last of them may be given back. All four
 * are plain takes, which PostgreSQL settles by themselves, or none: a plain one among others peeks, too.
 */
function inFours(history: History): History {
  const steps = history.steps.map((step, index) => {
    const four = history.steps.slice(index - (index % 4), index - (index % 4) + 4);
    const isAmongOthers = isPlain(step) && !four.every(isPlain);
    return {
      ...step,
      takes: isAmongOthers ? step.takes.flatMap((take) => [take, { ...take, mode: Mode.peek }]) : step.takes,
      advanceUs: index % 4 === 0 ? step.advanceUs : 0,
      isGivenBack: step.isGivenBack && index % 4 === 3,
    };
  });
  return { ...history, steps };
}

/** Holds calls that travel together against the reference; `prefixOf` makes what the keys of a replay begin with. */
export async function expectEqualInFours(
  harness: () => StoreHarness,
  shape: HistoryShape,
  add = asTheyAre,
  prefixOf = nextPrefix,
): Promise<void> {
  const shaped = histories({ ...shape, stepsMax: 40, givesBack: true });
  await fc.assert(
    fc.asyncProperty(add(shaped).map(inFours), async (history) => {
      expect(await replayInFours(harness(), history, prefixOf())).toEqual(replayOnReference(history));
    }),
    { numRuns: runs(100) },
  );
}

async function replayInFours(harness: StoreHarness, history: History, keyPrefix: string): Promise<GroupAnswer[]> {
  const limits = history.limits.map(limitOf);
  const answers: GroupAnswer[] = [];
  let nowUs = history.startUs;
  for (let at = 0; at < history.steps.length; at += 4) {
    const steps = history.steps.slice(at, at + 4);
    nowUs += steps[0]?.advanceUs ?? 0;
    harness.setUs(nowUs);
    const groups = steps.map(({ takes, hasSpareQuota }) => {
      const group = new TakeGroup();
      const asks = takes.flatMap(({ limit, ...take }) => {
        const compiled = limits[limit];
        return compiled === undefined ? [] : [{ ...take, limit: compiled }];
      });
      fillGroup(group, asks, keyPrefix, hasSpareQuota);
      return group;
    });
    await Promise.all(groups.map((group) => harness.settle(group)));
    answers.push(...groups.map(answerOf));
    for (const [i, group] of groups.entries()) if (steps[i]?.isGivenBack) await harness.giveBack(group);
  }
  return answers;
}

/** Groups of all kinds over all algorithms. */
export const MIXED: HistoryShape = {
  limitsMax: 4,
  identities: 2,
  takesMax: 6,
  kinds: [Kind.ordinary, Kind.quota, Kind.shadow],
  stepBackMaxUs: 20_000_000,
};

/** Limits of a minute, so that they share their buckets, or of any length, so that few do. */
const ofOneWindow = (numbers: fc.Arbitrary<LimitNumbers>) =>
  fc.oneof(
    numbers.map((one) => ({ ...one, windowSeconds: 60 })),
    numbers.map((one) => ({ ...one, windowSeconds: 604_800 })),
  );

/** A call is one process's: all takes of a group have one limit, by one process's zone data. */
const byOneProcess: Change = (histories) =>
  histories.map((history) => ({
    ...history,
    steps: history.steps.map((step) => ({
      ...step,
      takes: step.takes.map((take) => ({ ...take, limit: step.takes[0]?.limit ?? 0 })),
    })),
  }));

const withoutHolds = (numbers: LimitNumbers): LimitNumbers => ({ ...numbers, holdSeconds: 0 });

/** Calls that open, settle and refund holds. */
export const HOLDS: HistoryShape = {
  numbers: limitsWithHolds(),
  modes: [Mode.pay, Mode.pay, Mode.pay, Mode.settle, Mode.settle, Mode.peek, Mode.refund, Mode.postPaid],
  holdIds: ["a", "a", "b", "c", ""],
  givesBack: true,
};

/** A burst of more payments than lows are kept of, settled in any order. */
function crowdedHolds(): fc.Arbitrary<History> {
  const limit = { algorithm: Algorithm.tokenBucket, amount: 60, burst: 4_000, windowSeconds: 60, debtMax: 40_000 };
  const take = { limit: 0, identity: "0", descriptor: 0, kind: Kind.ordinary };
  return fc
    .array(fc.tuple(fc.integer({ min: 1, max: 40 }), fc.integer({ min: 0, max: 60 }), fc.nat()), {
      minLength: 70,
      maxLength: 90,
    })
    .map((calls) => {
      const ids = calls.map((_, i) => `r${i}`);
      const pays = calls.map(([cost], i) => ({ ...take, mode: Mode.pay, cost, holdId: `r${i}` }));
      const settles = calls.map(([, used, which]) => {
        const [holdId = ""] = ids.splice(which % ids.length, 1);
        return { ...take, mode: Mode.settle, cost: used, holdId };
      });
      const steps = [...pays, ...settles].map((one) => ({
        advanceUs: 1_000 * one.cost,
        takes: [one],
        hasSpareQuota: false,
        isGivenBack: false,
      }));
      return { startUs: Date.UTC(2026, 0, 1) * 1000, limits: [{ ...limit, holdSeconds: 120 }], steps };
    });
}

/** High limits and steps of a fiftieth of a window leave hundreds of payments in logs. */
function longLogs(): fc.Arbitrary<History> {
  const shape: HistoryShape = { algorithms: [Algorithm.slidingLog], takesMax: 2, identities: 2 };
  return histories({ ...shape, stepBackMaxUs: 20_000_000, givesBack: true, stepsMin: 130, stepsMax: 300 }).map(
    (history) => ({
      ...history,
      limits: history.limits.map((limit) => ({ ...limit, amount: 1_000, burst: 1_000 })),
      steps: history.steps.map((step) => ({ ...step, advanceUs: Math.trunc(step.advanceUs / 50) })),
    }),
  );
}

/**
 * Replays histories of all shapes, each on the store that `open` then gives, whose answers must be the `expected` ones. Groups can't
 * travel together to a store that settles at once: `settlesAtOnce`.
 */
export function describeAgreement(
  open: () => StoreHarness,
  expected: Expected = replayOnReference,
  settlesAtOnce = false,
): void {
  const expectEqual = (any: fc.Arbitrary<History>, times = 100) =>
    fc.assert(
      fc.asyncProperty(any, async (history) => {
        expect(await replayHistory(open(), history, nextPrefix())).toEqual(expected(history));
      }),
      { numRuns: runs(times) },
    );
  const alone = (name: string, shape: HistoryShape, add = asTheyAre) =>
    test(name, () => expectEqual(add(histories(shape))));
  const together = (name: string, shape: HistoryShape, add = asTheyAre) => {
    if (!settlesAtOnce) test(name, () => expectEqualInFours(open, shape, add));
  };

  test("histories that failed once", async () => {
    for (const history of [...REPLAYED_HISTORIES, ...REPLAYED_EDITS]) {
      expect(await replayHistory(open(), history, nextPrefix())).toEqual(expected(history));
    }
  });

  // Promise(limits): Redis and PostgreSQL answer as memory does, step by step: algorithms, several limits, priorities, calendars, holds.
  describe.each(ALGORITHMS.map((algorithm: Algorithm) => ({ name: ALGORITHM_NAMES[algorithm], algorithm })))(
    "$name",
    ({ algorithm }) => {
      const algorithms = [algorithm];
      const late = { stepBackMaxUs: 20_000_000, givesBackLate: true };
      const minutes = limitNumbers(algorithms).map((limit) => ({ ...limit, windowSeconds: 60 }));
      alone("one bucket, all modes, time that steps back, payments given back", {
        algorithms,
        stepBackMaxUs: 200_000_000_000,
        givesBack: true,
      });
      alone("rules edited between takes share the bucket", { algorithms, limitsMax: 4, takesMax: 3, givesBack: true });
      alone("payments given back later, also after a step back in time", { algorithms, limitsMax: 2, ...late });
      together("groups that travel together name one bucket by several limits, also after a step back in time", {
        numbers: minutes,
        limitsMax: 3,
        takesMax: 2,
        stepBackMaxUs: 20_000_000,
      });
    },
  );

  describe("calendar windows of processes whose zone data differ", () => {
    const CALENDARS: HistoryShape = {
      numbers: ofOneWindow(calendarNumbers()),
      limitsMax: 4,
      stepBackMaxUs: 200_000_000_000,
    };
    const plain = { ...CALENDARS, numbers: ofOneWindow(calendarNumbers().map(withoutHolds)) };
    const modes = [Mode.pay, Mode.pay, Mode.pay, Mode.settle, Mode.settle, Mode.peek, Mode.refund];
    const held = ofOneWindow(calendarNumbers().map((limit) => ({ ...limit, holdSeconds: limit.holdSeconds || 60 })));
    const settling = { numbers: held, modes, holdIds: ["a", "b", ""], stepBackMaxUs: 0 };

    alone("payments given back at once", { ...plain, takesMax: 3, identities: 2, givesBack: true }, byOneProcess);
    alone("payments given back late", { ...plain, givesBackLate: true });
    together("plain calls that travel together", { ...plain, modes: [Mode.pay], identities: 4 });
    together("calls that travel together", { ...plain, takesMax: 3, identities: 2 }, byOneProcess);
    alone("with holds", { ...CALENDARS, ...settling, takesMax: 2, givesBack: true, stepsMax: 40 });
  });

  describe("holds", () => {
    const apart = { sharesBuckets: false };
    const edited = { limitsMax: 3, takesMax: 2, givesBack: false, givesBackLate: true };
    alone("of one bucket are opened, settled, given back and forgotten", { ...HOLDS, stepsMax: 40 });
    alone("of rules edited between takes, given back late", { ...HOLDS, ...edited });
    // Memory ends holds of buckets that nobody asks about, by the rate of the limit that opened them.
    alone("of groups of all kinds that name several buckets", { ...HOLDS, ...MIXED, stepBackMaxUs: 0, ...apart });
    alone("of calls of two priorities", { ...HOLDS, limitsMax: 2, takesMax: 2, ...apart }, withPriorities);
    together("of groups that travel together", { ...HOLDS, limitsMax: 3, takesMax: 3, identities: 2, ...apart });
    test("of a burst, more than lows are kept of, settled in any order", () => expectEqual(crowdedHolds(), 10));
  });

  test("logs of hundreds of payments", () => expectEqual(longLogs(), 30));

  alone("groups of all kinds over all algorithms", { ...MIXED, givesBack: true });
  together("groups that travel together are settled as one after another", MIXED);
  alone("calls of two priorities on one bucket", { ...MIXED, givesBack: true }, withPriorities);
  together("calls of two priorities on one bucket that travel together", MIXED, withPriorities);

  describe.runIf(!settlesAtOnce)("plain takes that travel together", () => {
    const algorithms = [Algorithm.tokenBucket, Algorithm.slidingWindow, Algorithm.fixedWindow];
    const plain: HistoryShape = { limitsMax: 3, modes: [Mode.pay], kinds: Object.values(Kind), algorithms };
    const few = { ...plain, identities: 2 };
    const many = { ...plain, identities: 6, sharesBuckets: false };
    const steppingBack = { stepBackMaxUs: 20_000_000 };
    together("on few buckets", { ...few, ...steppingBack });
    together("on many buckets", { ...many, ...steppingBack });
    together("of any rate", { ...few, ...steppingBack, numbers: bucketNumbers() });
    together("of two priorities, on few buckets", { ...few, limitsMax: 2 }, withPriorities);
    together("of two priorities, on many buckets", { ...many, limitsMax: 2 }, withPriorities);
  });

  const rates = { numbers: bucketNumbers(), limitsMax: 4, takesMax: 3, stepBackMaxUs: 20_000_000 };
  alone("token buckets of any rate that is edited to any other", { ...rates, givesBack: true });
  together("token buckets of any rate that is edited to any other, in one call", rates);
}
