// Limits at run time in virtual time: set as the service sets them, and what calls meet of them.

import { RequestError } from "../../engine/base/errors.ts";
import { getOrInsert } from "../../engine/base/get-or-insert.ts";
import { type Descriptor, textOf } from "../../engine/domain/request.ts";
import type { AppliedLimit } from "../../engine/limiter/applied-limit.ts";
import type { LimitCall } from "../../engine/limiter/call.ts";
import { planLimit, wordsAfter } from "../../engine/limiter/runtime-check.ts";
import type { RuleSet } from "../../engine/rules/rule-set.ts";
import { type AskedLimit, keyText, valueText } from "../../engine/runtime/runtime-limit.ts";
import { newRuntimeTable, RuntimeTable } from "../../engine/runtime/runtime-table.ts";
import { descriptorText } from "./call-text.ts";

/** A limit at run time of a file. */
export interface PlacedLimit {
  /** Where it is, such as `limits.jsonl:7`. */
  readonly at: string;
  /** An error if it can't be read. */
  readonly asked: AskedLimit | RequestError;
}

/** An empty table for so many limits, each of which may be twice as long as a service has room for. */
export function openLimits(limitsMax: number): RuntimeTable {
  return new RuntimeTable(newRuntimeTable(2 * limitsMax), 0);
}

/** Puts the limit in force at `nowUs`, or unsets it. Returns why it can't be. */
export function setLimit(
  table: RuntimeTable,
  rules: RuleSet,
  asked: PlacedLimit["asked"],
  nowUs: number,
): RequestError | undefined {
  if (asked instanceof RequestError) return asked;
  try {
    const { caller, limit, known } = planLimit(rules, table, asked, "", nowUs);
    const atUs = Math.max(nowUs, (known?.atUs ?? 0) + 1);
    const kept = table.put({ key: keyText(caller.key), value: valueText(limit), atUs });
    if (kept !== "full") return undefined;
  } catch (error) {
    if (error instanceof RequestError) return error;
    throw error;
  }
  return new RequestError("REQUEST_LIMIT", "expected shorter keys and notes; there is no room for all limits");
}

/** Counts the calls that meet each limit at run time. */
export class LimitsTally {
  readonly #hashesAll: boolean;
  /** By key. Limits are given in a file, so their number is bounded. */
  readonly #met = new Map<string, ReturnType<typeof metLimit>>();

  /** `hashesAll` hides all values of callers. */
  constructor(hashesAll: boolean) {
    this.#hashesAll = hashesAll;
  }

  /** Counts a decided call; `old` is the call as it was decided by what is compared with. `number` tells it from others. */
  count(call: LimitCall, old: LimitCall | undefined, number: number): void {
    for (let i = 0; i < call.runtime.length; i++) {
      const applied = call.runtime[i];
      if (applied === undefined || !doesSomething(applied, call.request.descriptors[i] as Descriptor)) continue;
      const met = this.#of(call, i, applied);
      if (met.lastCall === number) continue;
      met.lastCall = number;
      met.calls++;
      if (call.decision.overLimit) met.refused++;
      if (call.wasShadowed) met.shadowed++;
      if (old?.decision.overLimit === true) met.refusedByOld++;
    }
  }

  /** Those that refused most calls first. */
  list() {
    return [...this.#met.values()].sort((a, b) => b.refused - a.refused || b.calls - a.calls);
  }

  #of(call: LimitCall, index: number, applied: AppliedLimit) {
    const { domain, descriptors } = call.request;
    const { keys, values, entryCount } = descriptors[index] as Descriptor;
    const entries = keys.slice(0, entryCount).map((key, i) => [key, values[i] as string] as const);
    const key = keyText({ domain, entries: entries.filter(([key]) => call.domain?.costEntries.has(key) !== true) });
    return getOrInsert(this.#met, key, () => {
      const owner = descriptorText(call, index, this.#hashesAll, call.domain?.costEntries);
      return metLimit(`${textOf(domain)} ${owner}`, wordsAfter(applied.limit, applied.of));
    });
  }
}

function metLimit(caller: string, words: readonly string[]) {
  return { caller, words, calls: 0, refused: 0, shadowed: 0, refusedByOld: 0, lastCall: 0 };
}

/** What a call brings along is changed only by a block or an exemption. */
function doesSomething({ limit: { change } }: AppliedLimit, { hasOverride }: Descriptor): boolean {
  return !hasOverride || change.kind === "block" || change.kind === "exempt";
}
