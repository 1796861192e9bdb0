// A store's arithmetic and the TypeScript's are one: generated histories, replayed on the store and on the reference, give
// equal answers step by step, every field of them.

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
let prefixOf = (replay: number) => `h${replay}:`;
const freshPrefix = () => prefixOf(replays++);

async function expectEqualReplays(harness: StoreHarness, shape: HistoryShape, add = asTheyAre): Promise<void> {
  await fc.assert(
    fc.asyncProperty(add(histories(shape)), async (history) => {
      expect(await replayHistory(harness, history, freshPrefix())).toEqual(replayOnReference(history));
    }),
    { numRuns: runs(100) },
  );
}

function asTheyAre(histories: fc.Arbitrary<History>): fc.Arbitrary<History> {
  return histories;
}

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

async function expectEqualInFours(harness: StoreHarness, shape: HistoryShape, add = asTheyAre): Promise<void> {
  const shaped = histories({ ...shape, stepsMax: 40, givesBack: true });
  await fc.assert(
    fc.asyncProperty(add(shaped).map(inFours), async (history) => {
      expect(await replayInFours(harness, history, freshPrefix())).toEqual(replayOnReference(history));
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

const MIXED: HistoryShape = {
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
const byOneProcess = (histories: fc.Arbitrary<History>) =>
  histories.map((history) => ({
    ...history,
    steps: history.steps.map((step) => ({
      ...step,
      takes: step.takes.map((take) => ({ ...take, limit: step.takes[0]?.limit ?? 0 })),
    })),
  }));

const withoutHolds = (numbers: LimitNumbers): LimitNumbers => ({ ...numbers, holdSeconds: 0 });

interface AgreementOptions {
  /** Makes what the keys of a replay begin with. */
  readonly namePrefix?: (replay: number) => string;
  /**
   * False: a payment of a sliding log that was dated anew since, because time stepped back by more than ten seconds, is given
   * back, where the TypeScript no longer finds it.
   */
  readonly losesRedatedLogs?: boolean;
}

/** Replays histories of all shapes on the store that `open` gives, which the caller opens before and closes after. */
export function describeAgreement(
  open: () => StoreHarness,
  { namePrefix = prefixOf, losesRedatedLogs = true }: AgreementOptions = {},
): void {
  prefixOf = namePrefix;
  test("histories that failed once", async () => {
    for (const history of [...REPLAYED_HISTORIES, ...REPLAYED_EDITS]) {
      expect(await replayHistory(open(), history, freshPrefix())).toEqual(replayOnReference(history));
    }
  });

  describe.each(ALGORITHMS.map((algorithm: Algorithm) => ({ name: ALGORITHM_NAMES[algorithm], algorithm })))(
    "$name",
    ({ algorithm }) => {
      // Promise(limits): Redis and PostgreSQL answer as memory does, step by step: algorithms, several limits, priorities, calendars, holds.
      test("one bucket, all modes, time that steps back, payments given back", async () => {
        await expectEqualReplays(open(), { algorithms: [algorithm], stepBackMaxUs: 200_000_000_000, givesBack: true });
      });

      test("rules edited between takes share the bucket", async () => {
        await expectEqualReplays(open(), { algorithms: [algorithm], limitsMax: 4, takesMax: 3, givesBack: true });
      });

      const isEqual = losesRedatedLogs || algorithm !== Algorithm.slidingLog;
      test.runIf(isEqual)("payments given back later, also after a step back in time", async () => {
        await expectEqualReplays(open(), {
          algorithms: [algorithm],
          limitsMax: 2,
          stepBackMaxUs: 20_000_000,
          givesBackLate: true,
        });
      });

      test("groups that travel together name one bucket by several limits, also after a step back in time", async () => {
        const numbers = limitNumbers([algorithm]).map((limit) => ({ ...limit, windowSeconds: 60 }));
        await expectEqualInFours(open(), { numbers, limitsMax: 3, takesMax: 2, stepBackMaxUs: 20_000_000 });
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

    test("one call after another, payments given back at once and late", async () => {
      await expectEqualReplays(open(), { ...plain, takesMax: 3, identities: 2, givesBack: true }, byOneProcess);
      await expectEqualReplays(open(), { ...plain, givesBackLate: true });
    });

    test("calls that travel together, plain and not", async () => {
      await expectEqualInFours(open(), { ...plain, modes: [Mode.pay], identities: 4 });
      await expectEqualInFours(open(), { ...plain, takesMax: 3, identities: 2 }, byOneProcess);
    });

    test("with holds", async () => {
      const modes = [Mode.pay, Mode.pay, Mode.pay, Mode.settle, Mode.settle, Mode.peek, Mode.refund];
      const held = calendarNumbers().map((numbers) => ({ ...numbers, holdSeconds: numbers.holdSeconds || 60 }));
      const shape = { ...CALENDARS, numbers: ofOneWindow(held), modes, holdIds: ["a", "b", ""], stepBackMaxUs: 0 };
      await expectEqualReplays(open(), { ...shape, takesMax: 2, givesBack: true, stepsMax: 40 });
    });
  });

  describe("holds", () => {
    const HOLDS: HistoryShape = {
      numbers: limitsWithHolds(),
      modes: [Mode.pay, Mode.pay, Mode.pay, Mode.settle, Mode.settle, Mode.peek, Mode.refund, Mode.postPaid],
      holdIds: ["a", "a", "b", "c", ""],
      givesBack: true,
    };

    test("of one bucket are opened, settled, given back and forgotten", async () => {
      await expectEqualReplays(open(), { ...HOLDS, stepsMax: 40 });
    });

    test("of rules edited between takes, given back late", async () => {
      await expectEqualReplays(open(), {
        ...HOLDS,
        limitsMax: 3,
        takesMax: 2,
        givesBack: false,
        givesBackLate: true,
      });
    });

    test("of groups of all kinds that name several buckets", async () => {
      // Memory ends holds of buckets that nobody asks about, by the rate of the limit that opened them.
      await expectEqualReplays(open(), { ...HOLDS, ...MIXED, stepBackMaxUs: 0, sharesBuckets: false });
    });

    test("of a burst, more than lows are kept of, settled in any order", async () => {
      const limit = { algorithm: Algorithm.tokenBucket, amount: 60, burst: 4_000, windowSeconds: 60, debtMax: 40_000 };
      const take = { limit: 0, identity: "0", descriptor: 0, kind: Kind.ordinary };
      const bursts = fc
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
      await fc.assert(
        fc.asyncProperty(bursts, async (history) => {
          expect(await replayHistory(open(), history, freshPrefix())).toEqual(replayOnReference(history));
        }),
        { numRuns: runs(10) },
      );
    });

    test("of calls of two priorities", async () => {
      await expectEqualReplays(open(), { ...HOLDS, limitsMax: 2, takesMax: 2, sharesBuckets: false }, withPriorities);
    });

    test("of groups that travel together", async () => {
      await expectEqualInFours(open(), { ...HOLDS, limitsMax: 3, takesMax: 3, identities: 2, sharesBuckets: false });
    });
  });

  test("logs of hundreds of payments", async () => {
    const shape: HistoryShape = {
      algorithms: [Algorithm.slidingLog],
      takesMax: 2,
      stepBackMaxUs: 20_000_000,
      givesBack: true,
    };
    // High limits and steps of a fiftieth of a window leave hundreds of payments.
    const steps = { stepsMin: 130, stepsMax: 300 };
    const long = histories({ ...shape, ...steps }).map((history) => ({
      ...history,
      limits: history.limits.map((limit) => ({ ...limit, amount: 1_000, burst: 1_000 })),
      steps: history.steps.map((step) => ({ ...step, advanceUs: Math.trunc(step.advanceUs / 50) })),
    }));
    await fc.assert(
      fc.asyncProperty(long, async (history) => {
        expect(await replayHistory(open(), history, freshPrefix())).toEqual(replayOnReference(history));
      }),
      { numRuns: runs(30) },
    );
  });

  test("groups of all kinds over all algorithms", async () => {
    await expectEqualReplays(open(), { ...MIXED, givesBack: true });
  });

  test("groups that travel together are settled as one after another", async () => {
    await expectEqualInFours(open(), MIXED);
  });

  test("calls of two priorities on one bucket, alone and together", async () => {
    await expectEqualReplays(open(), { ...MIXED, givesBack: true }, withPriorities);
    await expectEqualInFours(open(), MIXED, withPriorities);
  });

  test("plain takes of two priorities that travel together", async () => {
    const algorithms = [Algorithm.tokenBucket, Algorithm.slidingWindow, Algorithm.fixedWindow];
    const shape: HistoryShape = { limitsMax: 2, modes: [Mode.pay], kinds: Object.values(Kind), algorithms };
    await expectEqualInFours(open(), { ...shape, identities: 2 }, withPriorities);
    await expectEqualInFours(open(), { ...shape, identities: 6, sharesBuckets: false }, withPriorities);
  });

  test("plain takes that travel together, on few buckets and on many", async () => {
    const algorithms = [Algorithm.tokenBucket, Algorithm.slidingWindow, Algorithm.fixedWindow];
    const kinds = Object.values(Kind);
    const shape: HistoryShape = { limitsMax: 3, modes: [Mode.pay], kinds, stepBackMaxUs: 20_000_000 };
    await expectEqualInFours(open(), { ...shape, algorithms, identities: 2 });
    await expectEqualInFours(open(), { ...shape, algorithms, identities: 6, sharesBuckets: false });
    await expectEqualInFours(open(), { ...shape, numbers: bucketNumbers(), identities: 2 });
  });

  test("token buckets of every rate that rule files can name", async () => {
    await expectEqualReplays(open(), { numbers: bucketNumbers(), givesBack: true, stepBackMaxUs: 20_000_000 });
  });

  test("rates edited to any other rate, one call after another and in one", async () => {
    const shape: HistoryShape = { numbers: bucketNumbers(), limitsMax: 4, takesMax: 3, stepBackMaxUs: 20_000_000 };
    await expectEqualReplays(open(), { ...shape, givesBack: true });
    await expectEqualInFours(open(), shape);
  });
}
