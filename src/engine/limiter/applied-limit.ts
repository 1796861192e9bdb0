// What a limit at run time makes of a rule: the Limits that take the place of the rule's. They keep the rule's buckets,
// so what was spent stays spent.

import { Algorithm, type Limit, UNIT_SECONDS, Unit } from "../domain/limit.ts";
import { reduceRate } from "../rules/limit-shape.ts";
import { safeName } from "../rules/names.ts";
import { priorityOf } from "../rules/priority.ts";
import type { Rule } from "../rules/rule-set.ts";
import type { RuntimeAmount, RuntimeLimit } from "../runtime/runtime-limit.ts";
import { blockedLimit } from "./blocked-limit.ts";
import type { AppliedLimit } from "./call.ts";

/** What the limit at run time makes of the rule. Amounts of limits that the rule does not have do nothing. */
export function apply({ change, untilUs }: RuntimeLimit, rule: Rule): AppliedLimit {
  const { kind } = change;
  const isShadow = kind === "block" && change.shadow;
  const used = kind === "use" ? (rule.tiers?.byName.get(change.name) ?? rule) : rule;
  const amounts = kind === "amounts" ? change.amounts : [];
  return {
    kind,
    isShadow,
    liftsGlobal: kind === "exempt" && change.global,
    untilUs,
    of: rule,
    rule: used,
    limits:
      amounts.length === 0 ? used.limits : used.limits.map((each) => withAmount(each, amountFor(each, rule, amounts))),
    blocked: kind === "block" && !isShadow ? blockedLimit(rule) : undefined,
  };
}

/**
 * Whether the limit has that name: its own, or its label in metrics; empty for the only one that is not `concurrent`.
 */
export function isNamed(limit: Limit, rule: Rule, name: string): boolean {
  if (name !== "") return limit.names.name === safeName(name) || labelOf(limit) === name;
  return !limit.isConcurrent && rule.limits.filter(({ isConcurrent }) => !isConcurrent).length === 1;
}

/** What metrics call the limit among those of its rule; empty if it is the only one and has no name. */
export function labelOf({ names: { id, path } }: Limit): string {
  const at = id.indexOf(`/${path}#`);
  return at < 0 ? "" : id.slice(at + path.length + 2);
}

function amountFor(limit: Limit, rule: Rule, amounts: readonly RuntimeAmount[]): RuntimeAmount | undefined {
  // The last that was set.
  return amounts.findLast((amount) => isNamed(limit, rule, amount.limit));
}

/** The limit with other amounts, and the same bucket, policy, names and stats. */
function withAmount(limit: Limit, amount: RuntimeAmount | undefined): Limit {
  if (amount === undefined) return limit;
  const { requests, unit } = amount;
  const isBucket = limit.algorithm === Algorithm.tokenBucket && !limit.isConcurrent;
  const seconds = unit === Unit.unknown ? limit.writtenSeconds : UNIT_SECONDS[unit];
  const rate = isBucket ? reduceRate(requests, seconds) : { amount: requests, windowSeconds: limit.windowSeconds };
  const burst = isBucket ? (amount.burst ?? requests) : requests;
  const changed: { -readonly [Key in keyof Limit]: Limit[Key] } = {
    ...limit,
    ...(limit.isConcurrent ? {} : rate),
    burst,
    debtMax: Math.max(limit.debtMax, burst),
    shownAmount: requests,
    shownUnit: unit === Unit.unknown ? limit.shownUnit : unit,
    writtenSeconds: isBucket ? seconds : limit.writtenSeconds,
  };
  if (limit.priority === undefined) return changed;
  const { names, stats } = limit.priority.low;
  changed.priority = priorityOf(limit.priority, changed, { id: names.id, stats });
  return changed;
}
