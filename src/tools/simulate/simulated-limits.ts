// Limits at run time in a simulation: those of a file, and what calls meet of them.

import type { RequestError } from "../../base/errors.ts";
import { getOrInsert } from "../../base/get-or-insert.ts";
import { type Descriptor, textOf } from "../../engine/domain/request.ts";
import type { AppliedLimit, LimitCall } from "../../engine/limiter/call.ts";
import { wordsOfApplied } from "../../engine/limiter/runtime-check.ts";
import { type AskedLimit, keyText } from "../../engine/runtime/runtime-limit.ts";
import { descriptorText } from "./call-text.ts";

/** A limit at run time of a file. */
export interface PlacedLimit {
  /** Where it is, such as `limits.jsonl:7`. */
  readonly at: string;
  /** An error if it can't be read. */
  readonly asked: AskedLimit | RequestError;
}

/** A limit at run time that calls met, and what became of these calls. */
interface MetLimit {
  readonly caller: string;
  readonly words: readonly string[];
  calls: number;
  refused: number;
  shadowed: number;
  /**
   * How many of them are refused by the old rules, or without --against by the same rules without limits at run time.
   */
  refused_by_old: number;
}

/** Counts the calls that meet each limit at run time. */
export class LimitsTally {
  readonly #hashesAll: boolean;
  /** By key. Limits are given in a file, so their number is bounded. */
  readonly #met = new Map<string, MetLimit>();

  /** `hashesAll` hides all values of callers. */
  constructor(hashesAll: boolean) {
    this.#hashesAll = hashesAll;
  }

  /** Counts a decided call, once for each limit; `old` is the call as it was decided by what is compared with. */
  count(call: LimitCall, old: LimitCall | undefined): void {
    const counted: MetLimit[] = [];
    for (let i = 0; i < call.runtime.length; i++) {
      const applied = call.runtime[i];
      if (applied === undefined || !doesSomething(applied, call.request.descriptors[i] as Descriptor)) continue;
      const met = this.#of(call, i, applied);
      if (counted.includes(met)) continue;
      counted.push(met);
      met.calls++;
      if (call.decision.overLimit) met.refused++;
      if (call.wasShadowed) met.shadowed++;
      if (old?.decision.overLimit) met.refused_by_old++;
    }
  }

  /** Those that refused most calls first. */
  list() {
    return [...this.#met.values()].sort((a, b) => b.refused - a.refused || b.calls - a.calls);
  }

  #of(call: LimitCall, index: number, applied: AppliedLimit): MetLimit {
    const { domain, descriptors } = call.request;
    const { keys, values, entryCount } = descriptors[index] as Descriptor;
    const entries = keys.slice(0, entryCount).map((key, i) => [key, values[i] as string] as const);
    const key = keyText({ domain, entries: entries.filter(([key]) => call.domain?.costEntries.has(key) !== true) });
    return getOrInsert(this.#met, key, () => {
      const owner = descriptorText(call, index, this.#hashesAll, call.domain?.costEntries);
      const words = wordsOfApplied(applied);
      return { caller: `${textOf(domain)} ${owner}`, words, calls: 0, refused: 0, shadowed: 0, refused_by_old: 0 };
    });
  }
}

/** What a call brings along is changed only by a block or an exemption. */
function doesSomething({ kind }: AppliedLimit, { hasOverride }: Descriptor): boolean {
  return !hasOverride || kind === "block" || kind === "exempt";
}
