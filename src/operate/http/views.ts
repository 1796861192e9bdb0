// What /readyz and /rlconfig show. Pure.

import { visible } from "../../base/visible.ts";
import { type Limit, UNIT_NAMES } from "../../engine/domain/limit.ts";
import { textOf } from "../../engine/domain/request.ts";
import { Kind } from "../../engine/domain/take.ts";
import { limitWords } from "../../engine/rules/limit-words.ts";
import type { Level, Rule, RuleSet } from "../../engine/rules/rule-set.ts";
import { rulesOfTiers } from "../../engine/rules/tiers.ts";
import type { RulesFailure } from "../../rule-sources/files/rule-source.ts";

/**
 * The JSON of `/readyz`: `reasons` by part why the process is not ready, `degraded` by part what is wrong nevertheless.
 */
export function readinessView(
  troubles: ReadonlyMap<string, string>,
  notes: ReadonlyMap<string, string>,
  rulesFailure: RulesFailure | undefined,
): object {
  const wrong = new Map(notes);
  if (rulesFailure !== undefined) wrong.set("rules", `new rules rejected (see /config): ${rulesFailure.message}`);
  const status = troubles.size > 0 ? "not ready" : wrong.size > 0 ? "ready, degraded" : "ready";
  const degraded = Object.fromEntries([...wrong].filter(([part]) => !troubles.has(part)));
  return { status, reasons: Object.fromEntries(troubles), degraded };
}

/**
 * The lines of `/rlconfig`: one per limit, in the order of the files; the fields of envoyproxy/ratelimit come first.
 */
export function* limitLines(rules: RuleSet | undefined): Generator<string> {
  for (const domain of rules?.domains.values() ?? []) {
    const name = visible(textOf(domain.domain));
    yield* levelLines(domain.root, name, false);
    if (domain.globalLimit === undefined) continue;
    const { limit } = domain.globalLimit;
    yield `${name}: ${limitText(limit)}, shadow_mode: false, quota_mode: false, global_limit: true${ownText(limit)}\n`;
  }
}

/** The lines of the debug port's `/rlconfig`: only the fields of envoyproxy/ratelimit, one line per limit. */
export function* referenceLimitLines(rules: RuleSet): Generator<string> {
  for (const domain of rules.domains.values()) yield* levelLines(domain.root, visible(textOf(domain.domain)), true);
}

function* levelLines(level: Level, parent: string, isReference: boolean): Generator<string> {
  for (const rule of level.rules) {
    const name = nameOf(rule, parent);
    const modes = `shadow_mode: ${rule.kind === Kind.shadow}, quota_mode: ${rule.isQuota}`;
    for (const { isUnlimited, unlimitedRequests, limits } of rulesOfTiers(rule)) {
      const own = isReference ? `${unlimitedRequests}, ${modes}` : `0, ${modes}, unlimited: true`;
      if (isUnlimited) yield `${name}: unit=UNKNOWN requests_per_unit=${own}\n`;
      for (const limit of limits)
        yield `${name}: ${limitText(limit)}, ${modes}${isReference ? "" : ownText(limit, rule)}\n`;
    }
    if (rule.children !== undefined) yield* levelLines(rule.children, name, isReference);
  }
}

function nameOf(rule: Rule, parent: string): string {
  return visible(`${parent}.${textOf(rule.key)}${rule.patternText === "" ? "" : `_${textOf(rule.patternText)}`}`);
}

function limitText(limit: Limit): string {
  return `unit=${UNIT_NAMES[limit.shownUnit].toUpperCase()} requests_per_unit=${limit.shownAmount}`;
}

/** The limit's name, and what it allows in the words of explain. */
function ownText(limit: Limit, rule?: Rule): string {
  const { readableName: name } = limit.names;
  const own = `${name === "" ? "" : `, name: ${textOf(name)}`}${rule?.isPostPaid === true ? ", post_paid: true" : ""}`;
  return visible(`${own}, says: ${limitWords(limit)}`);
}
