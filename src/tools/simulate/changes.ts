// Compares new rules with old ones, call by call: which of them refuse it, by which limit, and whom.

import { getOrInsert } from "../../base/get-or-insert.ts";
import { textOf } from "../../engine/domain/request.ts";
import type { LimitCall } from "../../engine/limiter/call.ts";
import { callerOf } from "./call-text.ts";

/**
 * Most limits and callers counted by name. Limits of overrides share one name, so the rule files bound the number of
 * limits.
 */
const CALLERS_MAX = 200_000;

/** Calls that one rule set refuses and the other lets pass, by the limit that refuses. */
class ChangedCalls {
  calls = 0;
  readonly #limits = new Map<string, { readonly limit: string; calls: number; callers: number }>();
  readonly #callers = new Set<string>();

  add(limit: string, caller: number): void {
    this.calls++;
    const counted = getOrInsert(this.#limits, limit, () => ({ limit: textOf(limit), calls: 0, callers: 0 }));
    counted.calls++;
    const id = `${limit} ${caller}`;
    if (this.#callers.has(id) || this.#callers.size >= CALLERS_MAX) return;
    this.#callers.add(id);
    counted.callers++;
  }

  list() {
    return [...this.#limits.values()].sort((a, b) => b.calls - a.calls);
  }
}

/** Compares two services that decide the same calls. */
export class Changes {
  refusedByBoth = 0;
  readonly newlyRefused = new ChangedCalls();
  readonly newlyAllowed = new ChangedCalls();

  compare(now: LimitCall, old: LimitCall): void {
    const { overLimit } = now.decision;
    if (overLimit === old.decision.overLimit) {
      if (overLimit) this.refusedByBoth++;
      return;
    }
    const { governing } = overLimit ? now : old;
    const limit = governing?.limit.names.id ?? "";
    (overLimit ? this.newlyRefused : this.newlyAllowed).add(limit, governing === undefined ? 0 : callerOf(governing));
  }
}
