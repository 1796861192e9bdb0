// Histories of calls whose buckets lie in several shards, and what a store over the shards tells exactly as one store does.

import type fc from "fast-check";
import { Kind, Mode } from "../../src/engine/domain/take.ts";
import { type History, type HistoryStep, type HistoryTake, histories } from "./histories.ts";
import type { GroupAnswer } from "./replay.ts";

/** Most takes of a call, and so most descriptors. */
export const TAKES_MAX = 6;

const SHAPE = {
  limitsMax: 4,
  sharesBuckets: false,
  takesMax: TAKES_MAX,
  stepsMax: 10,
  kinds: [Kind.ordinary, Kind.ordinary, Kind.quota, Kind.shadow],
  givesBack: true,
} as const;

/**
 * Histories in which every descriptor has one identity, so that its limits lie in one shard, and no call refunds a bucket
 * that it also takes from: a window's refund then goes first to what the same call has paid, and less is given back.
 */
export function historiesOnShards(identities: number): fc.Arbitrary<History> {
  return histories(SHAPE).map((history) => ({
    ...history,
    steps: history.steps.map((step) => {
      const takes = step.takes.map((take) => ({ ...take, identity: String(take.descriptor % identities) }));
      const paid = new Set(takes.filter(({ mode }) => mode !== Mode.refund).map(nameOf));
      const refunds = (take: HistoryTake) => take.mode === Mode.refund && paid.has(nameOf(take));
      return { ...step, takes: takes.map((take) => (refunds(take) ? { ...take, mode: Mode.peek } : take)) };
    }),
  }));
}

function nameOf({ limit, identity }: HistoryTake): string {
  return `${limit}/${identity}`;
}

/**
 * What both say alike. The time until a bucket is full is known to a part only roughly once it has given back; what
 * remains, only if the call names the bucket once.
 */
function gistOf({ verdict, takes }: GroupAnswer, step: HistoryStep) {
  const names = step.takes.map(nameOf);
  return {
    verdict,
    takes: takes.map(({ resetUs, remaining, ...take }, index) => {
      const isNamedOnce = names.filter((name) => name === names[index]).length === 1;
      return { ...take, remaining: isNamedOnce ? remaining : undefined };
    }),
  };
}

/** The gist of every answer to a history. */
export function gistsOf(history: History, answers: readonly GroupAnswer[]) {
  return history.steps.map((step, index) => gistOf(answers[index] as GroupAnswer, step));
}
