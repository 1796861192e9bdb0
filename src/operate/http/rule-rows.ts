// The rules in force as table rows, in the order of the files, with the counters of each limit. Pure.

import type { LongWork } from "../../base/long-work.ts";
import { isoTime } from "../../base/units.ts";
import type { Limit } from "../../engine/domain/limit.ts";
import { textOf } from "../../engine/domain/request.ts";
import { type RuleCount, sumOfCounts } from "../../engine/domain/stats.ts";
import { Kind } from "../../engine/domain/take.ts";
import { limitWords } from "../../engine/rules/explain-words.ts";
import { limitsOnBucket } from "../../engine/rules/priority.ts";
import { formatPlace } from "../../engine/rules/problems.ts";
import type { DomainRules, Level, Rule, RuleSet } from "../../engine/rules/rule-set.ts";
import { rulesOfTiers } from "../../engine/rules/tiers.ts";
import type { LimitWatch } from "../telemetry/limit-watch.ts";

/** A table row: a domain, a rule without limits of its own, or one limit of a rule. */
type RuleRow = {
  /** Stays equal as long as the rule keeps its place in the rules. */
  readonly id: string;
  /** Levels below the domain; a domain has 0. */
  readonly depth: number;
  /** The domain, or the last element of the rule's path. */
  readonly name: string;
  /** `file:line:column`. */
  readonly where?: string;
  /** The limit's name, if it has one. */
  readonly limit?: string;
  /** The limit in words. */
  readonly says?: string;
  readonly mode?: "shadow" | "quota";
  readonly count?: RuleCount;
  /** When a call last matched it, to five seconds; null if none has since the process started or the limit is in force. */
  readonly matched_at?: string | null;
  /** Calls of the domain since then. */
  readonly calls_since?: number;
};

interface RuleRows {
  readonly rows: readonly RuleRow[];
  /** Number of limits that are not shown. */
  readonly left_out: number;
}

/** Most rows of a table. A larger rule set shows the limits that refuse most, under their whole paths. */
const RULE_ROWS_MAX = 200;

/** Limits whose counters are read in one step; other work may run between steps. */
const LIMITS_PER_STEP = 100;

type CountOf = (limit: Limit) => RuleCount;

interface RowSources {
  readonly countOf: CountOf;
  /** When the limit last matched a call. */
  readonly sightOf: LimitWatch["sightOf"];
}

/** What the rows of a domain are made of. */
interface DomainSources extends RowSources {
  /** Calls of the domain. */
  readonly calls: number;
}

/** The rows of a rule set; none if it is undefined. */
export function* ruleRows(rules: RuleSet | undefined, sources: RowSources): LongWork<RuleRows> {
  const domains = [...(rules?.domains.values() ?? [])];
  const rows: RuleRow[] = [];
  for (const domain of domains) {
    for (const row of domainRows(domain, { ...sources, calls: domain.stats.calls })) {
      if (rows.length === RULE_ROWS_MAX) return yield* mostRefusing(domains, sources.countOf);
      rows.push(row);
      yield;
    }
  }
  return { rows, left_out: 0 };
}

interface Counted {
  readonly limit: Limit;
  readonly count: RuleCount;
}

/** Makes words only for limits that are shown: there may be a hundred thousand. */
function* mostRefusing(domains: readonly DomainRules[], countOf: CountOf): LongWork<RuleRows> {
  let kept: Counted[] = [];
  let seen = 0;
  for (const { limits } of domains) {
    for (const limit of limits) {
      const count = countOf(limit);
      if (count.hits > 0) kept.push({ limit, count });
      if (kept.length === 2 * RULE_ROWS_MAX) kept = mostOf(kept);
      if (++seen % LIMITS_PER_STEP === 0) yield;
    }
  }
  const rows = mostOf(kept).map(({ limit, count }): RuleRow => {
    return { id: textOf(limit.names.id), depth: 1, name: textOf(limit.names.id), says: limitWords(limit), count };
  });
  return { rows, left_out: seen - rows.length };
}

function mostOf(counted: readonly Counted[]): Counted[] {
  return counted.toSorted(byRefusals).slice(0, RULE_ROWS_MAX);
}

function byRefusals({ count: one }: Counted, { count: other }: Counted): number {
  return other.refused - one.refused || other.hits - one.hits;
}

function* domainRows({ domain, globalLimit, root }: DomainRules, sources: DomainSources): Generator<RuleRow> {
  const name = textOf(domain);
  const head = { id: name, depth: 0, name };
  if (globalLimit === undefined) yield head;
  else {
    const { limit, countsHits } = globalLimit;
    const says = `every call: ${limitWords(limit, countsHits ? "hit" : "call")}`;
    yield { ...head, ...limitFields(limit, sources), says };
  }
  yield* levelRows(root, name, 1, sources);
}

function* levelRows(level: Level, parent: string, depth: number, sources: DomainSources): Generator<RuleRow> {
  for (const rule of level.rules) {
    const name = textOf(rule.pathElement);
    const head = { id: `${parent}/${name}`, depth, name, where: formatPlace(rule.at) };
    const rows = rulesOfTiers(rule).flatMap((one) => limitRows(one, head, sources));
    if (rows.length === 0) yield head;
    yield* rows;
    if (rule.children !== undefined) yield* levelRows(rule.children, head.id, depth + 1, sources);
  }
}

function limitRows(rule: Rule, head: RuleRow, sources: DomainSources): RuleRow[] {
  if (rule.isUnlimited) return [{ ...head, says: "unlimited" }];
  const mode = rule.kind === Kind.shadow ? "shadow" : rule.isQuota ? "quota" : undefined;
  return rule.limits.map((limit) => ({
    ...head,
    ...limitFields(limit, sources),
    ...(mode === undefined ? {} : { mode }),
  }));
}

function limitFields(limit: Limit, { countOf, sightOf, calls }: DomainSources) {
  const name = textOf(limit.names.readableName);
  const count = limitsOnBucket(limit).map(countOf).reduce(sumOfCounts);
  const known = sightOf(limit);
  // It has matched, but the watch has not looked since.
  const sight = known?.matchedUs === undefined && count.hits > 0 ? undefined : known;
  return {
    id: textOf(limit.names.id),
    ...(name === "" ? {} : { limit: name }),
    says: limitWords(limit),
    count,
    ...(sight && { matched_at: sight.matchedUs === undefined ? null : isoTime(sight.matchedUs) }),
    ...(sight && { calls_since: calls - sight.callsThen }),
  };
}
