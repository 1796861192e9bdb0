// Compares new rules with old ones, call by call: which of them refuse it, by which limit, and whom.

import { getOrInsert } from "../../engine/base/get-or-insert.ts";
import { isoTime } from "../../engine/base/units.ts";
import { textOf } from "../../engine/domain/request.ts";
import type { LimitCall } from "../../engine/limiter/call.ts";
import { limitWords } from "../../engine/rules/explain-words.ts";
import type { RuleSet } from "../../engine/rules/rule-set.ts";
import { callerOf, callerText } from "./call-text.ts";

/** Most limits and callers counted by name. Limits of overrides share one name, so the rule files bound the number of limits. */
const CALLERS_MAX = 200_000;
const EXAMPLES_MAX = 10;

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
  /** Calls that the old rules answer with an error, by its code. They are compared with nothing. */
  readonly rejectedByOld = new Map<string, number>();
  readonly newlyRefused = new ChangedCalls();
  readonly newlyAllowed = new ChangedCalls();
  /** The first calls that the two rule sets answer differently. */
  readonly examples: (Record<"at" | "refused_by" | "limit" | "caller", string> & { readonly call: number })[] = [];

  /** `hashesAll` hides all values of the call in the examples. */
  compare(now: LimitCall, old: LimitCall, number: number, atUs: number, hashesAll: boolean): void {
    const { overLimit } = now.decision;
    if (overLimit === old.decision.overLimit) {
      if (overLimit) this.refusedByBoth++;
      return;
    }
    const refused = overLimit ? now : old;
    const { governing } = refused;
    const limit = governing?.limit.names.id ?? "";
    (overLimit ? this.newlyRefused : this.newlyAllowed).add(limit, governing === undefined ? 0 : callerOf(governing));
    if (this.examples.length >= EXAMPLES_MAX || governing === undefined) return;
    const caller = callerText(refused, governing, hashesAll);
    const at = isoTime(atUs);
    this.examples.push({ call: number, at, refused_by: overLimit ? "new" : "old", limit: textOf(limit), caller });
  }
}

/** The limits that are not the same in both rule sets, with their numbers; null: it is not there. */
export function editedLimits(now: RuleSet, old: RuleSet) {
  const nowWords = wordsByLimit(now);
  const oldWords = wordsByLimit(old);
  return [...new Set([...nowWords.keys(), ...oldWords.keys()])]
    .map((limit) => ({ limit: textOf(limit), old: oldWords.get(limit) ?? null, new: nowWords.get(limit) ?? null }))
    .filter((limit) => limit.old !== limit.new);
}

function wordsByLimit(ruleSet: RuleSet): ReadonlyMap<string, string> {
  const limits = [...ruleSet.domains.values()].flatMap((domain) => domain.limits);
  return new Map(limits.map((limit) => [limit.names.id, limitWords(limit)]));
}
