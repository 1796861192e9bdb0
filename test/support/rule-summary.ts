// Rule sets as plain values that a fixture can hold: what people would write down of them, without stats and functions.

import {
  ALGORITHM_NAMES,
  type Limit,
  ON_STORE_FAILURE_NAMES,
  type Priority,
  SYNC_NAMES,
  UNIT_NAMES,
} from "../../src/engine/domain/limit.ts";
import { formatPlace } from "../../src/engine/rules/problems.ts";
import type { Rule, RuleSet, Tiers } from "../../src/engine/rules/rule-set.ts";

const KIND_NAMES = ["ordinary", "quota", "shadow"] as const;

/** All domains of a set. */
export function summarise(ruleSet: RuleSet): unknown {
  return [...ruleSet.domains.values()].map(({ domain, globalLimit, root, costEntries, hasReplaces }) => ({
    domain,
    ...(globalLimit === undefined
      ? {}
      : {
          globalLimit: {
            ...summariseLimit(globalLimit.limit),
            counts: globalLimit.countsHits ? "hits" : "calls",
            bucketKey: globalLimit.key.bucketKey,
          },
        }),
    ...(costEntries.size === 0 ? {} : { costEntries: [...costEntries] }),
    ...(hasReplaces ? { hasReplaces } : {}),
    rules: root.rules.map(summariseRule),
  }));
}

function summariseRule(rule: Rule): unknown {
  const { path, pattern, patternText, at, limits, kind, cost, hold, metadata, children } = rule;
  const switches = [
    "isUnlimited",
    "isQuota",
    "isPostPaid",
    "chargesGivenHits",
    "sharesThreshold",
    "hashesValues",
    "detailedMetric",
    "valueToMetric",
  ] as const;
  return {
    path,
    where: formatPlace(at),
    pattern: pattern.kind,
    ...(patternText === "" ? {} : { patternText }),
    ...Object.fromEntries(switches.filter((name) => rule[name]).map((name) => [name, true])),
    ...(kind === 0 ? {} : { kind: KIND_NAMES[kind] }),
    ...(rule.unlimitedReplaces.length === 0 ? {} : { unlimitedReplaces: rule.unlimitedReplaces }),
    ...(rule.limitsName === "" ? {} : { limitsName: rule.limitsName }),
    ...(limits.length === 0 ? {} : { limits: limits.map(summariseLimit) }),
    ...(rule.tiers === undefined ? {} : { tiers: summariseTiers(rule, rule.tiers) }),
    ...(cost === undefined ? {} : { cost }),
    ...(hold === undefined ? {} : { hold }),
    ...(metadata === undefined ? {} : { metadata }),
    ...(children === undefined ? {} : { children: children.rules.map(summariseRule) }),
  };
}

function summariseLimit(limit: Limit): object {
  const {
    algorithm,
    amount,
    burst,
    windowSeconds,
    debtMax,
    shownAmount,
    shownUnit,
    policy: { retryAfterJitter, replaces },
  } = limit;
  return {
    id: limit.names.id,
    ...(limit.holdSeconds === 0 ? {} : { holdSeconds: limit.holdSeconds }),
    ...(limit.isConcurrent ? { isConcurrent: true } : {}),
    ...(limit.names.name === "" ? {} : { name: limit.names.name }),
    algorithm: ALGORITHM_NAMES[algorithm],
    amount,
    windowSeconds,
    ...(limit.calendar === undefined ? {} : { calendar: limit.calendar.words }),
    burst,
    debtMax,
    shown: `${shownAmount}/${UNIT_NAMES[shownUnit]}`,
    keySuffix: limit.keySuffix,
    ...(retryAfterJitter === 0 ? {} : { retryAfterJitter }),
    ...(limit.policy.onStoreFailure === 0
      ? {}
      : { onStoreFailure: ON_STORE_FAILURE_NAMES[limit.policy.onStoreFailure] }),
    ...(limit.policy.sync === 0 ? {} : { sync: SYNC_NAMES[limit.policy.sync] }),
    ...(replaces.length === 0 ? {} : { replaces }),
    ...(limit.reserve === 0 ? {} : { reserve: limit.reserve }),
    ...(limit.priority === undefined ? {} : { priority: summarisePriority(limit.priority) }),
  };
}

function summarisePriority({ entry, values, percent, low, guarantee }: Priority): object {
  if (guarantee === undefined) return { entry, values: [...values], percent, low: summariseLimit(low) };
  const { limit, callers, keptFor } = guarantee;
  return {
    entry,
    percent,
    low: summariseLimit({ ...low, priority: undefined }),
    callers,
    keptFor,
    own: summariseLimit(limit),
  };
}

/** Of each tier its limits; of the rule's own that it is that. */
function summariseTiers(rule: Rule, { entry, byName }: Tiers): object {
  const limits = [...byName].map(([name, { limits, isUnlimited }]) => [
    name,
    name === rule.limitsName ? "default" : isUnlimited ? "unlimited" : limits.map(summariseLimit),
  ]);
  return { entry, byName: Object.fromEntries(limits) };
}
