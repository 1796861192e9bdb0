// The rules in force as table rows, in the order of the files, with the counters of each limit, and sums of each
// domain. Pure.

import type { LongWork } from "../../base/long-work.ts";
import { isoTime } from "../../base/units.ts";
import type { Limit } from "../../engine/domain/limit.ts";
import { textOf } from "../../engine/domain/request.ts";
import { type LimitStats, type RuleCount, sumOfCounts } from "../../engine/domain/stats.ts";
import { Kind } from "../../engine/domain/take.ts";
import { limitWords } from "../../engine/rules/limit-words.ts";
import { limitsOnBucket } from "../../engine/rules/priority.ts";
import { formatPlace } from "../../engine/rules/problems.ts";
import type { DomainRules, Level, Rule, RuleSet } from "../../engine/rules/rule-set.ts";
import { rulesOfTiers } from "../../engine/rules/tiers.ts";
import type { LimitWatch } from "../telemetry/limit-watch.ts";

export const RULE_ORDERS = ["file", "refused", "asked"] as const;

/** A question of `GET /rules`. */
export interface RulesQuestion {
  /** Part of an id, in any case; empty: all that calls met. */
  readonly find: string;
  readonly by: (typeof RULE_ORDERS)[number];
  /** Undefined: of all domains. */
  readonly domain: string | undefined;
  /** With limits that no call has met, and rules that have none. */
  readonly all: boolean;
  /** How many rows are passed over, and how many are shown at most. */
  readonly after: number;
  readonly count: number;
}

/** One limit of a rule, or an unlimited rule. */
type RuleRow = {
  /** Stays equal as long as the rule keeps its place in the rules. */
  readonly id: string;
  readonly domain: string;
  /** The rule's path; empty for the global limit. */
  readonly rule: string;
  /** `file:line:column`. */
  readonly where?: string;
  /** The limit's name, if it has one. */
  readonly limit?: string;
  /** The limit in words. */
  readonly says: string;
  readonly mode?: "shadow" | "quota";
  readonly count?: RuleCount;
  readonly amount?: number;
  readonly window_seconds?: number;
  /**
   * When a call last matched it, to five seconds; null if none has since the process started or the limit is in force.
   */
  readonly matched_at?: string | null;
  /** Calls of the domain since then. */
  readonly calls_since?: number;
  /** It has matched no call for long, though many came. */
  readonly dead?: true;
  /** Some caller has other limits at run time. */
  readonly changed?: true;
};

interface DomainRow {
  readonly domain: string;
  /** Calls since the start, and refusals of all its limits. */
  readonly calls: number;
  readonly refused: number;
  readonly limits: number;
  /** Limits that no call has met. */
  readonly unmet: number;
}

export interface RuleRows {
  /** Those that refuse most; `domains_left_out` are not shown. */
  readonly domains: readonly DomainRow[];
  readonly domains_left_out: number;
  /** How many rows there are, and how many of them the question is about. */
  readonly limits: number;
  readonly found: number;
  readonly rows: readonly RuleRow[];
}

/** Most rows of an answer. */
export const RULE_ROWS_MAX = 200;
const DOMAINS_MAX = 200;
/** Limits that are looked at in one step; other work may run between steps. */
const LIMITS_PER_STEP = 100;

interface RowSources {
  readonly countOf: (limit: Limit) => RuleCount;
  readonly watch: Pick<LimitWatch, "sightOf" | "deadStats">;
  /** Ids of rules with limits at run time. */
  readonly changed: ReadonlySet<string>;
}

/** A rule, or the global limit where it is undefined, with one limit, or none if it is unlimited. */
interface Found {
  readonly domain: DomainRules;
  readonly rule: Rule | undefined;
  readonly limit: Limit | undefined;
  readonly count: RuleCount | undefined;
}

/** Words are made only for the rows that are shown: there may be a hundred thousand. */
export function* ruleRows(
  rules: RuleSet | undefined,
  question: RulesQuestion,
  sources: RowSources,
): LongWork<RuleRows> {
  const wanted = new Wanted(question);
  const domains: DomainRow[] = [];
  for (const domain of rules?.domains.values() ?? []) domains.push(yield* domainRow(domain, wanted, sources));
  domains.sort((one, other) => other.refused - one.refused || other.calls - one.calls);
  const rows: RuleRow[] = [];
  for (const one of wanted.shown()) {
    rows.push(rowOf(one, sources));
    yield;
  }
  const { seen: limits, found } = wanted;
  const left = Math.max(0, domains.length - DOMAINS_MAX);
  return { domains: domains.slice(0, DOMAINS_MAX), domains_left_out: left, limits, found, rows };
}

/** Adds up a domain, and picks what is wanted of it. */
function* domainRow(domain: DomainRules, wanted: Wanted, sources: RowSources): LongWork<DomainRow> {
  const name = textOf(domain.domain);
  let [refused, limits, unmet] = [0, 0, 0];
  for (const { rule, limit } of entriesOf(domain)) {
    if (++wanted.seen % LIMITS_PER_STEP === 0) yield;
    const count = limit && countOf(limit, sources);
    const isMet = limit !== undefined && matchesOf(limit) > 0;
    if (limit !== undefined) limits++;
    if (limit !== undefined && !isMet) unmet++;
    refused += (count?.refused ?? 0) - (count?.shadowed ?? 0);
    wanted.take({ domain, rule, limit, count }, isMet);
  }
  return { domain: name, calls: domain.stats.calls, refused, limits, unmet };
}

/** What a question is about, as far as it is shown. */
class Wanted {
  readonly #question: RulesQuestion;
  readonly #find: string;
  readonly #end: number;
  #kept: Found[] = [];
  seen = 0;
  found = 0;

  constructor(question: RulesQuestion) {
    this.#question = question;
    this.#find = question.find.toLowerCase();
    this.#end = question.after + question.count;
  }

  take(one: Found, isMet: boolean): void {
    if (!this.#wants(one, isMet)) return;
    this.found++;
    const { by } = this.#question;
    if (by !== "file" || this.#kept.length < this.#end) this.#kept.push(one);
    if (by !== "file" && this.#kept.length >= 2 * this.#end) this.#kept = this.#sorted().slice(0, this.#end);
  }

  shown(): readonly Found[] {
    return this.#sorted().slice(this.#question.after, this.#end);
  }

  #sorted(): Found[] {
    const { by } = this.#question;
    return by === "file" ? this.#kept : this.#kept.sort(ORDERS[by]);
  }

  #wants({ domain, rule, limit }: Found, isMet: boolean): boolean {
    const { domain: only, all } = this.#question;
    if (only === undefined && this.#find === "") return all || isMet;
    const name = textOf(domain.domain);
    if (only !== undefined && only !== name) return false;
    if (this.#find === "") return all || isMet;
    return idOf(name, rule, limit).toLowerCase().includes(this.#find);
  }
}

const ORDERS = {
  refused: (one: Found, other: Found) =>
    (other.count?.refused ?? 0) - (one.count?.refused ?? 0) || (other.count?.hits ?? 0) - (one.count?.hits ?? 0),
  asked: (one: Found, other: Found) => (other.count?.hits ?? 0) - (one.count?.hits ?? 0),
};

/** Every limit of a domain, and its unlimited rules. */
function* entriesOf({ globalLimit, root }: DomainRules): Generator<Pick<Found, "rule" | "limit">> {
  if (globalLimit !== undefined) yield { rule: undefined, limit: globalLimit.limit };
  yield* entriesBelow(root);
}

function* entriesBelow(level: Level): Generator<Pick<Found, "rule" | "limit">> {
  for (const written of level.rules) {
    for (const rule of rulesOfTiers(written)) {
      if (rule.isUnlimited) yield { rule, limit: undefined };
      for (const limit of rule.limits) yield { rule, limit };
    }
    if (written.children !== undefined) yield* entriesBelow(written.children);
  }
}

function idOf(domain: string, rule: Rule | undefined, limit: Limit | undefined): string {
  return limit === undefined ? `${domain}/${textOf(rule?.path ?? "")}` : textOf(limit.names.id);
}

function rowOf({ domain, rule, limit, count }: Found, { watch, changed }: RowSources): RuleRow {
  const name = textOf(domain.domain);
  const path = textOf(rule?.path ?? "");
  const head = {
    id: idOf(name, rule, limit),
    domain: name,
    rule: path,
    ...(rule === undefined ? {} : { where: formatPlace(rule.at) }),
    ...(changed.has(`${name}/${path}`) ? ({ changed: true } as const) : {}),
  };
  if (limit === undefined || count === undefined) return { ...head, says: "unlimited" };
  const readable = textOf(limit.names.readableName);
  const mode = rule?.kind === Kind.shadow ? "shadow" : rule?.isQuota ? "quota" : undefined;
  return {
    ...head,
    ...(readable === "" ? {} : { limit: readable }),
    says: rule === undefined ? `every call: ${limitWords(limit, unitOf(domain))}` : limitWords(limit),
    ...(mode === undefined ? {} : { mode }),
    count,
    ...(limit.isConcurrent ? {} : { amount: limit.amount, window_seconds: limit.windowSeconds }),
    ...(isDead(limit.stats, watch) ? ({ dead: true } as const) : {}),
    ...sightFields(limit, count, domain, watch),
  };
}

function unitOf({ globalLimit }: DomainRules): "hit" | "call" {
  return globalLimit?.countsHits ? "hit" : "call";
}

function isDead(stats: LimitStats, { deadStats }: RowSources["watch"]): boolean {
  return deadStats.has(stats);
}

function sightFields(limit: Limit, { hits }: RuleCount, { stats }: DomainRules, watch: RowSources["watch"]) {
  const known = watch.sightOf(limit);
  // It has matched, but the watch has not looked since.
  const sight = known?.matchedUs === undefined && hits > 0 ? undefined : known;
  if (sight === undefined) return {};
  return {
    matched_at: sight.matchedUs === undefined ? null : isoTime(sight.matchedUs),
    calls_since: stats.calls - sight.callsThen,
  };
}

function countOf(limit: Limit, sources: RowSources): RuleCount {
  return limitsOnBucket(limit).map(sources.countOf).reduce(sumOfCounts);
}

function matchesOf(limit: Limit): number {
  return limitsOnBucket(limit).reduce((sum, { stats }) => sum + stats.matches, 0);
}
