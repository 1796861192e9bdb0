// The holds of a decided call, descriptor by descriptor: what it holds, and what its settlements found.

import { Mode, Outcome, type Take } from "../../../engine/domain/take.ts";
import type { LimitCall } from "../../../engine/limiter/call.ts";
import { settlementFound } from "../../../engine/limiter/count-hits.ts";
import type { FOUND } from "./case-file.ts";

/** What the descriptor holds, in the caller's unit: the most that a limit of its rule was paid; 0 if nothing is held. */
export function reservedBy(call: LimitCall, index: number): number {
  const hold = call.rules[index]?.hold;
  let paid = 0;
  for (const take of takesOf(call, index)) {
    if (take.mode === Mode.pay && take.paid && hold !== undefined) paid = Math.max(paid, take.cost);
  }
  return paid * (hold?.estimate?.per ?? 1);
}

/** What the descriptor's settlement found. */
export function foundBy(call: LimitCall, index: number): (typeof FOUND)[number] {
  const takes = takesOf(call, index).filter(({ mode }) => mode === Mode.settle);
  if (takes.length === 0) return "nothing";
  const isUnanswered = takes.every(({ outcome }) => outcome === Outcome.unanswered);
  return isUnanswered ? "unanswered" : settlementFound(call.group, index);
}

function takesOf({ group }: LimitCall, index: number): readonly Take[] {
  return group.takes.slice(0, group.size).filter(({ descriptor }) => descriptor === index);
}
