// The limit of a caller who is blocked at run time: it has no room, and no store knows it.

import type { Limit } from "../domain/limit.ts";
import type { Rule } from "../rules/rule-set.ts";
import { rulesOfTiers } from "../rules/tiers.ts";

/** End of the key under which refusals of a blocked caller are shown; no bucket has it. */
const BLOCKED_KEY_SUFFIX = "}|blocked";

/** The limit; undefined if no tier of the rule has one. */
export function blockedLimit(rule: Rule): Limit | undefined {
  // A call's tier may be unlimited, and others not.
  const first = rulesOfTiers(rule).find(({ limits }) => limits.length > 0)?.limits[0];
  if (first === undefined) return undefined;
  const label = first.names.readableName === "" ? "blocked" : `${first.names.readableName}, blocked`;
  return {
    ...first,
    // The end of a block is known, and nobody comes back before it.
    policy: { ...first.policy, retryAfterJitter: 0 },
    amount: 0,
    burst: 0,
    shownAmount: 0,
    holdSeconds: 0,
    isConcurrent: false,
    isCounter: false,
    priority: undefined,
    keySuffix: BLOCKED_KEY_SUFFIX,
    names: { ...first.names, readableName: label },
  };
}
