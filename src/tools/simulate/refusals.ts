// Single refusals in full: what each limit of the call held before and after (`simulate --explain N`). With --against,
// of calls that only one of the rule sets refuses.

import { isoTime } from "../../base/units.ts";
import { textOf } from "../../engine/domain/request.ts";
import { isOver, Mode, type Take, type TakeGroup } from "../../engine/domain/take.ts";
import type { LimitCall } from "../../engine/limiter/call.ts";
import { callerOf, callerText, descriptorText } from "./call-text.ts";

/** A refused call. */
export type ShownRefusal = ReturnType<typeof tell> & {
  /** The rules that refuse the call: `old` are those of --against. */
  readonly rules: "new" | "old";
};

/** Keeps the first refusal of each caller of each limit, until it has as many as wanted. */
export class Refusals {
  readonly told: ShownRefusal[] = [];
  readonly #max: number;
  readonly #hashesAll: boolean;
  readonly #seen = new Set<string>();

  constructor(max: number, hashesAll: boolean) {
    this.#max = max;
    this.#hashesAll = hashesAll;
  }

  /** Looks at a call as the new rules decided it, and the old ones if there are any. */
  look(now: LimitCall, old: LimitCall | undefined, number: number, atUs: number): void {
    if (now.decision.overLimit === (old?.decision.overLimit ?? false)) return;
    const call = now.decision.overLimit ? now : (old ?? now);
    const { governing } = call;
    if (this.told.length >= this.#max || governing === undefined) return;
    const rules = call === now ? "new" : "old";
    const id = `${rules} ${governing.limit.names.id} ${callerOf(governing)}`;
    if (this.#seen.has(id)) return;
    this.#seen.add(id);
    this.told.push({ rules, ...tell(call, governing, number, atUs, this.#hashesAll) });
  }
}

/** All but those of guarantees, which refuse nobody. */
function ownTakes({ takes, size }: TakeGroup): readonly Take[] {
  return takes.slice(0, size).filter(({ mode }) => mode !== Mode.guarantee);
}

function tell(call: LimitCall, governing: Take, number: number, atUs: number, hashesAll: boolean) {
  const { request, group } = call;
  return {
    /** Number of the call in the recording, from 1. */
    call: number,
    at: isoTime(atUs),
    domain: textOf(request.domain),
    descriptors: request.descriptors
      .slice(0, request.descriptorCount)
      .map((_, i) => descriptorText(call, i, hashesAll)),
    /** The limit that governs the answer. */
    limit: textOf(governing.limit.names.id),
    limits: ownTakes(group).map((take) => ({
      limit: textOf(take.limit.names.id),
      caller: callerText(call, take, hashesAll),
      cost: take.cost,
      had_room: !isOver(take),
      /** What would have passed before and after the call; a refused call takes nothing. */
      before: take.remaining + (take.paid ? take.cost : 0),
      after: take.remaining,
      /** Until the same cost could pass; absent if it never can, or has room. */
      ...(isOver(take) && take.waitUs > 0 ? { wait_seconds: take.waitUs / 1_000_000 } : {}),
      /** Until the bucket is full. */
      full_in_seconds: take.resetUs / 1_000_000,
    })),
  };
}
