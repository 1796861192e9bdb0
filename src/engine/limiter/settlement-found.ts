// What a settlement found, in one word for all limits of its rule.

import { HoldFound, Mode, Outcome, type Take, type TakeGroup } from "../domain/take.ts";

/** `unknown`: there was no hold, so all that was used was charged. `already_settled`: nothing was changed. */
type SettlementFound = "settled" | "unknown" | "already_settled";

/**
 * What the answered settlements of the descriptor found. Limits may differ if an earlier attempt reached only some of them. Then `unknown` comes
 * before `settled`, and `settled` before `already_settled`. A `concurrent` limit, which charges nothing, has a say only if it is alone.
 */
export function settlementFound({ takes, size }: TakeGroup, descriptor: number): SettlementFound {
  let strongest: Take | undefined;
  for (let i = 0; i < size; i++) {
    const take = takes[i] as Take;
    if (take.descriptor !== descriptor || take.mode !== Mode.settle || take.outcome === Outcome.unanswered) continue;
    if (strongest === undefined || strengthOf(take) > strengthOf(strongest)) strongest = take;
  }
  if (strongest === undefined || strongest.counted === HoldFound.none) return "unknown";
  return strongest.counted === HoldFound.settled ? "already_settled" : "settled";
}

function strengthOf({ counted, limit }: Take): number {
  return (limit.isConcurrent ? 0 : 3) + (counted === HoldFound.none ? 2 : counted === HoldFound.settled ? 0 : 1);
}
