// Hints of `headgate check`: rules that do what they say, and perhaps not what was meant. Hints are not problems.

import { AMOUNT_MAX } from "../../base/units.ts";
import { Algorithm, type Limit } from "../../engine/domain/limit.ts";
import { textOf } from "../../engine/domain/request.ts";
import { Kind } from "../../engine/domain/take.ts";
import { unitsUp } from "../../engine/rules/cost.ts";
import { looksLikeAddress } from "../../engine/rules/known-keys.ts";
import { formatPlace } from "../../engine/rules/problems.ts";
import type { Rule, RuleSet } from "../../engine/rules/rule-set.ts";
import { isInResource } from "../../engine/rules/source.ts";
import { allRules, rulesOfTiers } from "../../engine/rules/tiers.ts";
import type { Settings } from "../../settings/settings.ts";
import { calendarHints } from "./calendar-hints.ts";
import { count } from "./terminal.ts";

/** A sentence for each thing that may be meant otherwise. */
export function ruleHints(
  ruleSet: RuleSet,
  settings: Pick<Settings, "compatibilityMode" | "stopsAtOver">,
): readonly string[] {
  const hints = [...calendarHints(ruleSet), ...paceHints(ruleSet), ...holdHints(ruleSet), ...guaranteeHints(ruleSet)];
  return settings.compatibilityMode
    ? [...hints, ...referenceHints(ruleSet, settings.stopsAtOver)]
    : [...addressHints(ruleSet), ...hints];
}

function rulesOf({ domains }: RuleSet): readonly Rule[] {
  return [...domains.values()].flatMap(({ root }) => [...allRules(root)]);
}

function addressHints(ruleSet: RuleSet): readonly string[] {
  const found = new Map<string, Rule>();
  for (const { root, addresses } of ruleSet.domains.values())
    for (const rule of allRules(root))
      if (looksLikeAddress(rule.key) && !addresses.has(rule.key) && !isInResource(rule.at) && !found.has(rule.key))
        found.set(rule.key, rule);
  return [...found.values()].map(
    ({ key, at }) =>
      `'${textOf(key)}' looks like an address (${formatPlace(at)}): an IPv6 host has 2^64 of them, each a caller of its own; write address: { ipv6: 64 } at its rule`,
  );
}

function guaranteeHints(ruleSet: RuleSet): readonly string[] {
  return [...ruleSet.domains.values()]
    .flatMap(({ limits }) => limits)
    .flatMap((limit) => {
      const { entry, guarantee } = limit.priority ?? {};
      if (entry === undefined || guarantee === undefined || guarantee.callers > guarantee.keptFor) return [];
      return [
        `the guarantee of ${textOf(limit.names.id)} is kept for up to ${count(guarantee.keptFor, "caller")}: each value of '${textOf(entry)}' has one, so callers must not choose it`,
      ];
    });
}

/** Sliding windows of at most this many hits refuse 5 % or more of a steady pace. */
const PACE_AMOUNT_MAX = 20;

function paceHints(ruleSet: RuleSet): readonly string[] {
  const limits = [...ruleSet.domains.values()].flatMap(({ limits }) => limits).filter(refusesPace);
  const [first] = limits;
  if (first === undefined) return [];
  const where = `${count(limits.length, "limit")}, the first ${textOf(first.names.id)}`;
  return [
    `a sliding window of at most ${PACE_AMOUNT_MAX} hits refuses callers who keep its pace, about one call in limit + 1 (${where}); algorithm: sliding_log lets them pass, and is exact`,
  ];
}

function refusesPace({ algorithm, shownAmount, isCounter }: Limit): boolean {
  return algorithm === Algorithm.slidingWindow && !isCounter && shownAmount > 0 && shownAmount <= PACE_AMOUNT_MAX;
}

function holdHints(ruleSet: RuleSet): readonly string[] {
  return rulesOf(ruleSet).flatMap((rule) => {
    const estimate = rule.hold?.estimate;
    if (estimate === undefined || estimate.max === AMOUNT_MAX * estimate.per) return [];
    const most = unitsUp(estimate.max, estimate);
    const limit = rulesOfTiers(rule)
      .flatMap(({ limits }) => limits)
      .find(({ isConcurrent, burst }) => !isConcurrent && burst > 0 && burst < most);
    if (limit === undefined) return [];
    return [
      `hold: max lets an estimate be ${most}, but ${textOf(limit.names.id)} allows ${limit.burst} (${formatPlace(rule.at)}): larger estimates are refused for ever; lower max to the limit`,
    ];
  });
}

/** What the reference does, too, and COMPATIBILITY_MODE therefore keeps. */
function referenceHints(ruleSet: RuleSet, stopsAtOver: boolean): readonly string[] {
  const rules = rulesOf(ruleSet);
  const lifting = stopsAtOver
    ? rules.find(({ kind, limits }) => kind !== Kind.ordinary && limits.some(({ isCounter }) => isCounter))
    : undefined;
  const uncounted = rules.find(({ isQuota, isUnlimited }) => isQuota && isUnlimited);
  return [
    ...(lifting === undefined
      ? []
      : [
          `with STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT a ${lifting.kind === Kind.shadow ? "shadow" : "quota"} rule that is over (${formatPlace(lifting.at)}) keeps the call's other limits from counting, so they never refuse, as in the reference; take one of the two away`,
        ]),
    ...(uncounted === undefined
      ? []
      : [
          `COMPATIBILITY_MODE does not count an unlimited quota rule (${formatPlace(uncounted.at)}) among a call's quota descriptors, as the reference does not: the others refuse although it has room`,
        ]),
  ];
}
