// Generated histories of takes: any limits, any groups, time that passes and, if wanted, steps back. What reads them is
// in replay.ts; histories that failed once are kept in replayed.ts.

import fc from "fast-check";
import { AMOUNT_MAX, COST_ABOVE_ALL } from "../../src/base/units.ts";
import { ALGORITHMS, Algorithm, type Limit, LOG_PAYMENTS_MAX } from "../../src/engine/domain/limit.ts";
import { Kind, Mode } from "../../src/engine/domain/take.ts";
import { CONCURRENT_KEY_SUFFIX, limitKeySuffix } from "../../src/engine/rules/bucket-key.ts";
import { lowLimit, reserveOf } from "../../src/engine/rules/priority.ts";
import { makeLimit, regularWindows } from "../support/builders.ts";

/** The numbers of a limit. Limits of one algorithm and window share their buckets, as an edited rule does. */
export interface LimitNumbers {
  readonly algorithm: Algorithm;
  readonly amount: number;
  readonly burst: number;
  readonly windowSeconds: number;
  readonly debtMax: number;
  /** What stands for the window in bucket keys, where that is another: rates per second all have 1. */
  readonly keySeconds?: number;
  readonly holdSeconds?: number;
  /** Of a calendar window: by whose zone data, as `regularWindows` has it. */
  readonly zoneSeed?: number;
  readonly isConcurrent?: boolean;
  /** What it keeps for calls of high priority. */
  readonly keeps?: number;
  /** Of a limit as calls of low priority see it: what is kept for others. */
  readonly reserve?: number;
}

export interface HistoryTake {
  /** Index in the history's limits. */
  readonly limit: number;
  readonly identity: string;
  readonly descriptor: number;
  readonly kind: Kind;
  readonly mode: Mode;
  readonly cost: number;
  readonly holdId?: string;
}

/** One group, `advanceUs` after the one before. */
export interface HistoryStep {
  readonly advanceUs: number;
  readonly takes: readonly HistoryTake[];
  readonly hasSpareQuota: boolean;
  /** The group is given back as soon as it is settled. */
  readonly isGivenBack: boolean;
  /** Or so many steps later, at the time of the last of them. */
  readonly givenBackAfter?: number;
}

export interface History {
  readonly startUs: number;
  readonly limits: readonly LimitNumbers[];
  readonly steps: readonly HistoryStep[];
}

/** What histories may hold. */
export interface HistoryShape {
  readonly algorithms?: readonly Algorithm[];
  /** Where the limits come from, in place of `algorithms` and `amountMin`. */
  readonly numbers?: fc.Arbitrary<LimitNumbers>;
  readonly limitsMax?: number;
  /** False: no two limits have both algorithm and window in common, so that none share buckets. */
  readonly sharesBuckets?: boolean;
  readonly identities?: number;
  readonly stepsMin?: number;
  readonly stepsMax?: number;
  readonly takesMax?: number;
  readonly modes?: readonly Mode[];
  /** Ids of holds that takes name. */
  readonly holdIds?: readonly string[];
  readonly kinds?: readonly Kind[];
  readonly amountMin?: number;
  /** Farthest step back, in microseconds; 0 for none. */
  readonly stepBackMaxUs?: number;
  readonly givesBack?: boolean;
  /** Groups may also be given back some steps later. */
  readonly givesBackLate?: boolean;
}

/** The limit of those numbers. */
export function limitOf({ keySeconds, keeps, zoneSeed, ...numbers }: LimitNumbers): Limit {
  const keySuffix = numbers.isConcurrent
    ? CONCURRENT_KEY_SUFFIX
    : limitKeySuffix(numbers.algorithm, keySeconds ?? numbers.windowSeconds, "");
  const calendar = zoneSeed === undefined ? {} : { calendar: regularWindows(numbers.windowSeconds, zoneSeed) };
  const limit = makeLimit({ ...numbers, ...calendar, keySuffix });
  if (keeps === undefined) return limit;
  const low = lowLimit(limit, keeps, { id: `${limit.names.id}/low`, stats: limit.stats });
  return {
    ...limit,
    priority: { entry: "priority", values: new Set(["high"]), percent: 1, low, guarantee: undefined },
  };
}

/**
 * The same with two priorities: each take pays a limit as it is, or as calls of low priority see it. `areMixed`: also two takes
 * of one group on one limit.
 */
export function withPriorities(histories: fc.Arbitrary<History>, areMixed = true): fc.Arbitrary<History> {
  const lows = fc.array(fc.boolean(), { minLength: 30, maxLength: 30 });
  const percent = fc.oneof(fc.constantFrom(1, 20, 99), fc.integer({ min: 1, max: 99 }));
  return fc.tuple(histories, lows, percent).map(([history, isLow, percent]) => {
    let taken = 0;
    const limits = history.limits.flatMap((whole) => {
      if (whole.isConcurrent) return [whole, whole];
      const reserve = reserveOf(whole.burst, percent);
      const amount = whole.algorithm === Algorithm.tokenBucket ? whole.amount : whole.amount - reserve;
      return [
        { ...whole, keeps: reserve },
        { ...whole, amount, burst: whole.burst - reserve, reserve },
      ];
    });
    const steps = history.steps.map((step, at) => ({
      ...step,
      takes: step.takes.map((take) => {
        const which = areMixed ? taken++ : at * 3 + take.limit;
        return { ...take, limit: take.limit * 2 + (isLow[which % isLow.length] ? 1 : 0) };
      }),
    }));
    return { ...history, limits, steps };
  });
}

/** Any limit that a rule file can name. */
export function limitNumbers(algorithms: readonly Algorithm[] = ALGORITHMS, amountMin = 0): fc.Arbitrary<LimitNumbers> {
  const small = fc.integer({ min: amountMin, max: 20 });
  const large = fc.oneof(fc.integer({ min: amountMin, max: AMOUNT_MAX }), fc.constant(AMOUNT_MAX));
  const windowSeconds = fc.oneof(
    { weight: 3, arbitrary: fc.constantFrom(1, 7, 60) },
    { weight: 1, arbitrary: fc.constantFrom(3_600, 86_400, 604_800, 2_592_000, 31_536_000) },
    { weight: 1, arbitrary: fc.integer({ min: 1, max: 31_536_000 }) },
  );
  return fc
    .record({
      algorithm: fc.constantFrom(...algorithms),
      small,
      large,
      isLarge: fc.boolean(),
      windowSeconds,
      burstShare: fc.integer({ min: 1, max: 4 }),
      debtShare: fc.integer({ min: 1, max: 10 }),
    })
    .map(({ algorithm, small, large, isLarge, windowSeconds, burstShare, debtShare }) => {
      const isLog = algorithm === Algorithm.slidingLog;
      const amount = isLarge ? (isLog ? Math.max(amountMin, large % (LOG_PAYMENTS_MAX + 1)) : large) : small;
      const burst = algorithm === Algorithm.tokenBucket ? Math.min(amount * burstShare, AMOUNT_MAX) : amount;
      return { algorithm, amount, burst, windowSeconds, debtMax: Math.min(burst * debtShare, AMOUNT_MAX) };
    });
}

/** Any calendar window, by the zone data of several processes. */
export function calendarNumbers(): fc.Arbitrary<LimitNumbers> {
  const windowSeconds = fc.constantFrom(7, 60, 86_400, 604_800, 2_592_000);
  return fc
    .record({
      amount: fc.integer({ min: 0, max: 20 }),
      windowSeconds,
      zoneSeed: fc.integer({ min: 0, max: 3 }),
      holdSeconds: fc.constantFrom(0, 0, 1, 60, 86_400),
    })
    .map((numbers) => ({
      ...numbers,
      algorithm: Algorithm.calendarWindow,
      burst: numbers.amount,
      debtMax: Math.min(numbers.amount * 10, AMOUNT_MAX),
    }));
}

const HELD_KINDS: readonly Algorithm[] = [Algorithm.tokenBucket, Algorithm.fixedWindow, Algorithm.calendarWindow];

/** Any limit that can be combined with `hold`, and limits of holds at once. */
export function limitsWithHolds(): fc.Arbitrary<LimitNumbers> {
  const holdSeconds = fc.oneof(fc.constantFrom(1, 7, 60, 120), fc.integer({ min: 1, max: 86_400 }));
  const budget = fc
    .tuple(limitNumbers(HELD_KINDS), holdSeconds)
    .map(([limit, seconds]) => ({ ...limit, holdSeconds: seconds }));
  const concurrent = fc.tuple(fc.integer({ min: 1, max: 4 }), holdSeconds).map(([places, seconds]) => ({
    algorithm: Algorithm.tokenBucket,
    amount: 0,
    burst: places,
    windowSeconds: seconds,
    debtMax: places,
    holdSeconds: seconds,
    isConcurrent: true,
  }));
  return fc.oneof({ weight: 2, arbitrary: budget }, { weight: 1, arbitrary: concurrent });
}

/** Any history of that shape. */
export function histories(shape: HistoryShape = {}): fc.Arbitrary<History> {
  const limits = fc.uniqueArray(shape.numbers ?? limitNumbers(shape.algorithms, shape.amountMin), {
    minLength: 1,
    maxLength: shape.limitsMax ?? 1,
    selector: ({ algorithm, windowSeconds, amount, zoneSeed = 0 }) =>
      shape.sharesBuckets === false
        ? `${algorithm}/${windowSeconds}`
        : `${algorithm}/${windowSeconds}/${amount}/${zoneSeed}`,
  });
  // Starts near a boundary of windows as often as not.
  const startUs = fc.integer({ min: 0, max: 120_000_000 }).map((offset) => Date.UTC(2026, 0, 1) * 1000 + offset);
  return fc
    .tuple(limits, startUs)
    .chain(([limits, startUs]) =>
      fc
        .array(historyStep(limits, shape), { minLength: shape.stepsMin ?? 1, maxLength: shape.stepsMax ?? 25 })
        .map((steps) => ({ startUs, limits, steps })),
    );
}

function historyStep(limits: readonly LimitNumbers[], shape: HistoryShape): fc.Arbitrary<HistoryStep> {
  return fc.record({
    advanceUs: advances(limits, shape.stepBackMaxUs ?? 0),
    takes: fc
      .array(historyTake(limits, shape), { minLength: 1, maxLength: shape.takesMax ?? 1 })
      .map((takes) => numberDescriptors(takes)),
    hasSpareQuota: fc.boolean(),
    isGivenBack: shape.givesBack === true ? fc.integer({ min: 0, max: 5 }).map((n) => n === 0) : fc.constant(false),
    ...(shape.givesBackLate === true ? { givenBackAfter: fc.integer({ min: 0, max: 3 }) } : {}),
  });
}

/** Time between two groups: nothing, ticks, parts of a window, whole windows. */
function advances(limits: readonly LimitNumbers[], stepBackMaxUs: number): fc.Arbitrary<number> {
  const forward = fc
    .constantFrom(...limits.flatMap((limit) => [limit.windowSeconds, limit.holdSeconds ?? limit.windowSeconds]))
    .chain((windowSeconds) =>
      fc.oneof(
        { weight: 2, arbitrary: fc.constantFrom(0, 1, windowSeconds - 1, windowSeconds, windowSeconds * 1_000_000) },
        { weight: 2, arbitrary: fc.integer({ min: 0, max: windowSeconds * 100_000 }) },
        { weight: 2, arbitrary: fc.integer({ min: 0, max: windowSeconds * 1_000_000 }) },
        { weight: 1, arbitrary: fc.integer({ min: 0, max: windowSeconds * 3_000_000 }) },
      ),
    );
  if (stepBackMaxUs === 0) return forward;
  const back = fc.oneof(
    fc.integer({ min: 0, max: Math.min(stepBackMaxUs, 10_000_001) }),
    fc.integer({ min: 0, max: stepBackMaxUs }),
  );
  return fc.oneof({ weight: 4, arbitrary: forward }, { weight: 1, arbitrary: back.map((us) => 0 - us) });
}

interface LooseTake extends HistoryTake {
  /** Joins the descriptor of the take before. */
  readonly joins: boolean;
}

function historyTake(limits: readonly LimitNumbers[], shape: HistoryShape): fc.Arbitrary<LooseTake> {
  const modes = shape.modes ?? [Mode.pay, Mode.pay, Mode.pay, Mode.pay, Mode.peek, Mode.refund, Mode.postPaid];
  return fc.nat({ max: limits.length - 1 }).chain((limit) => {
    const { burst = 0, isConcurrent = false } = limits[limit] ?? {};
    // What counts holds is never refunded or reported to, and each counts as one.
    const ofHolds = modes.filter((mode) => mode === Mode.pay || mode === Mode.peek || mode === Mode.settle);
    return fc.record({
      limit: fc.constant(limit),
      identity: fc.nat({ max: (shape.identities ?? 1) - 1 }).map(String),
      descriptor: fc.constant(0),
      kind: fc.constantFrom(...(shape.kinds ?? [Kind.ordinary])),
      mode: fc.constantFrom(...(isConcurrent ? ofHolds : modes)),
      cost: isConcurrent
        ? fc.constant(1)
        : fc.oneof(
            { weight: 4, arbitrary: fc.integer({ min: 1, max: 3 }) },
            { weight: 4, arbitrary: fc.integer({ min: 1, max: Math.max(1, Math.ceil(burst / 3)) }) },
            { weight: 2, arbitrary: fc.integer({ min: 1, max: Math.min(burst + 2, AMOUNT_MAX) }) },
            { weight: 1, arbitrary: fc.constantFrom(Math.max(1, burst), AMOUNT_MAX, COST_ABOVE_ALL) },
          ),
      joins: fc.boolean(),
      ...(shape.holdIds === undefined ? {} : { holdId: fc.constantFrom(...shape.holdIds) }),
    });
  });
}

/** Takes of one descriptor are adjacent and of one kind, and the last descriptor may be the global limit. */
function numberDescriptors(takes: readonly LooseTake[]): HistoryTake[] {
  const numbered: HistoryTake[] = [];
  for (const { joins, ...take } of takes) {
    const last = numbered.at(-1);
    if (last !== undefined && joins) numbered.push({ ...take, descriptor: last.descriptor, kind: last.kind });
    else numbered.push({ ...take, descriptor: last === undefined ? 0 : last.descriptor + 1 });
  }
  return numbered;
}
