// Plays a history against a store and tells all its answers, so that two stores can be held equal step by step.

import type { Store } from "../../src/engine/domain/store.ts";
import type { Outcome, Verdict } from "../../src/engine/domain/take.ts";
import { TakeGroup } from "../../src/engine/domain/take.ts";
import { type Ask, fillGroup } from "../contract/store-harness.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { type History, type HistoryStep, limitOf } from "./histories.ts";
import { ReferenceStore } from "./reference-store.ts";

/** Everything a store tells of one take. */
export interface TakeAnswer {
  readonly outcome: Outcome;
  readonly paid: boolean;
  readonly remaining: number;
  readonly waitUs: number;
  readonly resetUs: number;
  readonly paidAtUs: number;
  readonly cappedHits: number;
  readonly held: number;
  readonly openedHold: boolean;
  readonly liveHolds: number;
  readonly count: number;
}

export interface GroupAnswer {
  readonly verdict: Verdict;
  readonly takes: readonly TakeAnswer[];
}

/** A store as a replay needs it; a StoreHarness of the contract suites is one. */
export interface ReplayTarget {
  setUs(nowUs: number): void;
  settle(group: TakeGroup): Promise<void>;
  giveBack(group: TakeGroup): Promise<void>;
}

/** Answers of the store to each step. Keys begin with `keyPrefix`: give each replay on a shared server its own. */
export async function replayHistory(target: ReplayTarget, history: History, keyPrefix = ""): Promise<GroupAnswer[]> {
  const limits = history.limits.map(limitOf);
  const answers: GroupAnswer[] = [];
  let nowUs = history.startUs;
  const settled: TakeGroup[] = [];
  for (const [at, step] of history.steps.entries()) {
    nowUs += step.advanceUs;
    target.setUs(nowUs);
    const group = new TakeGroup();
    fillGroup(group, asksOf(step, limits), keyPrefix, step.hasSpareQuota);
    await target.settle(group);
    answers.push(answerOf(group));
    settled.push(group);
    if (step.isGivenBack) await target.giveBack(group);
    for (const due of dueAt(history, at)) await target.giveBack(settled[due] as TakeGroup);
  }
  return answers;
}

/** The same for a store that settles at once, quick enough for many histories. Ends with the clock at the last step. */
export function replayAtOnce(store: Store, clock: ManualClock, history: History): GroupAnswer[] {
  const limits = history.limits.map(limitOf);
  const settled: TakeGroup[] = [];
  let nowUs = history.startUs;
  return history.steps.map((step, at) => {
    nowUs += step.advanceUs;
    clock.setUs(nowUs);
    const group = new TakeGroup();
    settled.push(group);
    fillGroup(group, asksOf(step, limits), "", step.hasSpareQuota);
    store.take(group, MUST_ANSWER_AT_ONCE);
    const answer = answerOf(group);
    if (step.isGivenBack) store.giveBack(group);
    for (const due of dueAt(history, at)) store.giveBack(settled[due] as TakeGroup);
    return answer;
  });
}

/** The earlier steps whose groups are given back after the step `at`, oldest first. */
function dueAt({ steps }: History, at: number): number[] {
  return [3, 2, 1].flatMap((after) => (steps[at - after]?.givenBackAfter === after ? [at - after] : []));
}

/** What the reference answers: the project's own settlement over a plain Map that forgets nothing. */
export function replayOnReference(history: History): GroupAnswer[] {
  const clock = new ManualClock();
  return replayAtOnce(new ReferenceStore(clock), clock, history);
}

/** Who waits for nothing. */
export const MUST_ANSWER_AT_ONCE = {
  answered: () => {
    throw new Error("expected a store that answers before `take` returns");
  },
};

/** The takes of a step over compiled limits. */
export function asksOf(step: HistoryStep, limits: readonly Ask["limit"][]): Ask[] {
  return step.takes.map(({ limit, ...take }) => {
    const compiled = limits[limit];
    if (compiled === undefined) throw new RangeError(`no limit ${limit} in the history`);
    return { ...take, limit: compiled };
  });
}

/** The answer as plain data. -0 stays -0, which `toEqual` tells from 0. */
export function answerOf(group: TakeGroup): GroupAnswer {
  return {
    verdict: group.verdict,
    takes: group.takes
      .slice(0, group.size)
      .map(
        ({ outcome, paid, remaining, waitUs, resetUs, paidAtUs, cappedHits, held, openedHold, liveHolds, count }) => ({
          outcome,
          paid,
          remaining,
          waitUs,
          resetUs,
          paidAtUs,
          cappedHits,
          held,
          openedHold,
          liveHolds,
          count,
        }),
      ),
  };
}
