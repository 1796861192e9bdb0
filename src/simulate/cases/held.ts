// The holds of a decided call, descriptor by descriptor: what it holds, and what its settlements found.

import { HoldFound, Mode, Outcome, type Take } from "../../core/take.ts";
import type { LimitCall } from "../../limiter/call.ts";
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

/** What the descriptor's settlement found: a hold if any limit of its rule had one. */
export function foundBy(call: LimitCall, index: number): (typeof FOUND)[number] {
  const takes = takesOf(call, index).filter(({ mode }) => mode === Mode.settle);
  if (takes.length === 0) return "nothing";
  const answered = takes.filter(({ outcome }) => outcome !== Outcome.unanswered);
  if (answered.length === 0) return "unanswered";
  if (answered.some(({ counted }) => counted >= 0)) return "settled";
  return answered.some(({ counted }) => counted === HoldFound.settled) ? "already_settled" : "unknown";
}

function takesOf({ group }: LimitCall, index: number): readonly Take[] {
  return group.takes.slice(0, group.size).filter(({ descriptor }) => descriptor === index);
}
