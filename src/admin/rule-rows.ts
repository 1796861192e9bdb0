// The rules in force as rows of a table, in the order of the files, with what each limit has counted. Pure.

import type { Limit } from "../core/limit.ts";
import type { RuleCount } from "../core/limit-stats.ts";
import { textOf } from "../core/request.ts";
import { Kind } from "../core/take.ts";
import { limitWords } from "../rules/explain-words.ts";
import { formatPlace } from "../rules/problems.ts";
import type { DomainRules, Level, Rule, RuleSet } from "../rules/rule-set.ts";
import { rulesOfTiers } from "../rules/tiers.ts";
import { addCounts } from "../telemetry/rule-counts.ts";
import type { RuleRow, RuleRows } from "./state-json.ts";

/** Most rows of a table; beyond them those that refuse most are shown, under their whole paths. */
const RULE_ROWS_MAX = 200;

type CountOf = (limit: Limit) => RuleCount;

/** The rows of a rule set; none without one. */
export function ruleRows(rules: RuleSet | undefined, countOf: CountOf): RuleRows {
  const domains = [...(rules?.domains.values() ?? [])];
  const rows: RuleRow[] = [];
  for (const domain of domains) for (const row of domainRows(domain, countOf)) rows.push(row);
  if (rows.length <= RULE_ROWS_MAX) return { rows, left_out: 0 };
  const moved = rows.filter(({ count }) => count !== undefined && count.hits > 0).toSorted(byRefusals);
  const shown = moved.slice(0, RULE_ROWS_MAX).map((row) => ({ ...row, depth: 1, name: row.id }));
  return { rows: shown, left_out: rows.length - shown.length };
}

function byRefusals({ count: one }: RuleRow, { count: other }: RuleRow): number {
  return (other?.refused ?? 0) - (one?.refused ?? 0) || (other?.hits ?? 0) - (one?.hits ?? 0);
}

function* domainRows({ domain, globalLimit, root }: DomainRules, countOf: CountOf): Generator<RuleRow> {
  const name = textOf(domain);
  const head = { id: name, depth: 0, name };
  if (globalLimit === undefined) yield head;
  else {
    const { limit, countsHits } = globalLimit;
    const says = `every call: ${limitWords(limit, countsHits ? "hit" : "call")}`;
    yield { ...head, ...limitFields(limit, countOf), says };
  }
  yield* levelRows(root, name, 1, countOf);
}

function* levelRows(level: Level, parent: string, depth: number, countOf: CountOf): Generator<RuleRow> {
  for (const rule of level.rules) {
    const name = textOf(rule.pathElement);
    const head = { id: `${parent}/${name}`, depth, name, where: formatPlace(rule.at) };
    const rows = rulesOfTiers(rule).flatMap((one) => limitRows(one, head, countOf));
    if (rows.length === 0) yield head;
    yield* rows;
    if (rule.children !== undefined) yield* levelRows(rule.children, head.id, depth + 1, countOf);
  }
}

function limitRows(rule: Rule, head: RuleRow, countOf: CountOf): RuleRow[] {
  if (rule.isUnlimited) return [{ ...head, says: "unlimited" }];
  const mode = rule.kind === Kind.shadow ? "shadow" : rule.isQuota ? "quota" : undefined;
  return rule.limits.map((limit) => ({
    ...head,
    ...limitFields(limit, countOf),
    ...(mode === undefined ? {} : { mode }),
  }));
}

function limitFields(limit: Limit, countOf: CountOf) {
  const name = textOf(limit.readableName);
  const low = limit.priority?.low;
  const count = countOf(limit);
  return {
    id: textOf(limit.id),
    ...(name === "" ? {} : { limit: name }),
    says: limitWords(limit),
    count: low === undefined ? count : addCounts(count, countOf(low)),
  };
}
