// Reads the counters of all limits in force every five seconds and compares them with the last reading, so calls cost
// nothing more. Knows when each limit last matched a call and which are dead; passes what has grown to limit-trends.ts
// and rate-history.ts.

import type { LongWork } from "../../base/long-work.ts";
import { MICROS_PER_SECOND } from "../../base/units.ts";
import type { Limit } from "../../engine/domain/limit.ts";
import { textOf } from "../../engine/domain/request.ts";
import { type LimitStats, NO_COUNT, type RuleCount, sumOfCounts } from "../../engine/domain/stats.ts";
import { limitsOnBucket } from "../../engine/rules/priority.ts";
import { formatPlace } from "../../engine/rules/problems.ts";
import type { DomainRules, Level, Rule, RuleSet } from "../../engine/rules/rule-set.ts";
import { rulesOfTiers } from "../../engine/rules/tiers.ts";
import { type UnmatchedShape, whyUnmatched } from "../../engine/rules/why-unmatched.ts";
import { type Information, LimitTrends } from "./limit-trends.ts";
import type { RateHistory } from "./rate-history.ts";

const LOOK_US = 5 * MICROS_PER_SECOND;
/** How often limits are judged: which are dead, and what else is worth knowing. */
const JUDGE_US = 60 * MICROS_PER_SECOND;
/** The limits of a rule are dead if their domain has had this many calls since their last match, */
const DEAD_CALLS = 10_000;
/**
 * and this time has passed: an hour without any match since the start or since the rule is in force, a day since the
 * last match.
 */
const NEVER_US = 3_600 * MICROS_PER_SECOND;
const NO_LONGER_US = 24 * NEVER_US;
/** Rules with dead limits that are described, of a domain. */
const DESCRIBED_MAX = 20;
/** Limits that are read in one step. */
const LIMITS_PER_STEP = 100;

/** What is known of a limit, its low priority included, as of the last look. */
interface Sight {
  /** When it last matched; undefined if it has not since `sinceUs`. Exact to a look. */
  readonly matchedUs: number | undefined;
  readonly sinceUs: number;
  /** Calls of its domain until then. */
  readonly callsThen: number;
}

interface Watched extends Sight {
  readonly limit: Limit;
  readonly domain: DomainRules;
  readonly matches: number;
  readonly count: RuleCount;
}

/** A rule whose limits match no call. */
export interface DeadRule extends Pick<Sight, "matchedUs" | "sinceUs"> {
  readonly id: string;
  readonly where: string;
  /** Calls of the domain since the last match, or since `sinceUs`. */
  readonly calls: number;
  /** The likely cause, as the end of a sentence. */
  readonly why: string;
}

/** The dead limits of a domain. */
export interface DeadLimits {
  readonly domain: string;
  /** Number of rules that have some; the first DESCRIBED_MAX are described. */
  readonly count: number;
  readonly rules: readonly DeadRule[];
}

/** A rule as it is written. The values of `one_of` are copies of it; each tier is a rule. */
interface Written {
  readonly domain: DomainRules;
  readonly above: readonly Rule[];
  readonly copies: Rule[];
}

interface WatchSources {
  readonly shapesOf: (domain: string) => Iterable<UnmatchedShape>;
  readonly histories?: readonly RateHistory[];
}

/** Looks when called. */
export class LimitWatch {
  readonly #sources: WatchSources;
  readonly #trends = new LimitTrends();
  #rules: RuleSet | undefined;
  #limits = new Map<LimitStats, Watched>();
  #written: readonly Written[] = [];
  #lookedUs = Number.NEGATIVE_INFINITY;
  #judgedUs = Number.NEGATIVE_INFINITY;
  /** As of the last judgement. */
  dead: readonly DeadLimits[] = [];
  /** All dead limits. */
  deadStats: ReadonlySet<LimitStats> = new Set();

  constructor(sources: WatchSources) {
    this.#sources = sources;
  }

  isDue(nowUs: number): boolean {
    return nowUs - this.#lookedUs >= LOOK_US;
  }

  *look(rules: RuleSet | undefined, nowUs: number): LongWork<void> {
    const lastUs = this.#lookedUs;
    this.#lookedUs = nowUs;
    if (rules !== undefined && this.#rules !== rules) yield* this.#take(rules, nowUs);
    const limits = this.#limits;
    const { histories = [] } = this.#sources;
    for (const history of histories) history.begin(limits, nowUs);
    let looked = 0;
    for (const [stats, { limit, domain, matches, count }] of limits) {
      if (++looked % LIMITS_PER_STEP === 0) yield;
      if (matchesOf(limit) === matches) continue;
      const next = watchedFrom(limit, domain, nowUs, true);
      limits.set(stats, next);
      const grown = sumOfCounts(next.count, { hits: -count.hits, refused: -count.refused, shadowed: -count.shadowed });
      this.#trends.note(limit, grown, lastUs, nowUs);
      const { hits, refused, shadowed } = grown;
      for (const history of histories) history.note(limit, { hits, refused: refused - shadowed });
    }
    for (const history of histories) history.end();
    if (nowUs - this.#judgedUs < JUDGE_US) return;
    this.#judgedUs = nowUs;
    yield* this.#judge(nowUs);
  }

  /** Takes the limits of a new set of rules. */
  *#take(rules: RuleSet, nowUs: number): LongWork<void> {
    const limits = new Map<LimitStats, Watched>();
    for (const domain of rules.domains.values()) {
      for (const limit of domain.limits) {
        yield;
        const known = this.#limits.get(limit.stats);
        limits.set(limit.stats, known ? { ...known, limit, domain } : watchedFrom(limit, domain, nowUs, false));
      }
    }
    this.#written = yield* writtenRules(rules);
    this.#limits = limits;
    this.#rules = rules;
  }

  *#judge(nowUs: number): LongWork<void> {
    let looked = 0;
    for (const { limit, domain } of this.#limits.values()) {
      this.#trends.judge(limit, domain, nowUs);
      if (++looked % LIMITS_PER_STEP === 0) yield;
    }
    this.#trends.end();
    const dead = new Map<DomainRules, { rules: DeadRule[]; count: number }>();
    const deadStats = new Set<LimitStats>();
    for (const written of this.#written) {
      if (++looked % LIMITS_PER_STEP === 0) yield;
      const sight = this.#deadOf(written, nowUs);
      if (sight === undefined) continue;
      const found = dead.get(written.domain) ?? { rules: [], count: 0 };
      dead.set(written.domain, found);
      for (const { stats } of written.copies.flatMap(({ limits }) => limits)) deadStats.add(stats);
      if (found.count++ < DESCRIBED_MAX) found.rules.push(this.#describe(written, sight));
      yield;
    }
    this.deadStats = deadStats;
    this.dead = [...dead].map(([{ domain }, found]) => ({ domain: textOf(domain), ...found }));
  }

  /** What else is worth knowing of limits. */
  get information(): readonly Information[] {
    return this.#trends.information;
  }

  /** When the limit last matched, and since when that is known; undefined before the first look at it. */
  sightOf({ stats }: Limit): Sight | undefined {
    return this.#limits.get(stats);
  }

  /** What is known of the rule's limits together, if they are dead. */
  #deadOf({ domain, copies }: Written, nowUs: number): Sight | undefined {
    if (copies[0]?.isRare) return undefined;
    const sight = latest(copies.flatMap(({ limits }) => limits.flatMap((limit) => this.sightOf(limit) ?? [])));
    if (sight === undefined || domain.stats.calls - sight.callsThen < DEAD_CALLS) return undefined;
    return nowUs - sight.sinceUs >= (sight.matchedUs === undefined ? NEVER_US : NO_LONGER_US) ? sight : undefined;
  }

  #describe({ domain, above, copies }: Written, { matchedUs, sinceUs, callsThen }: Sight): DeadRule {
    const [rule] = copies as [Rule];
    const tier = rule.tiers === undefined ? "" : ` (${textOf(rule.limitsName)})`;
    const isMet = ({ limits }: Rule) => limits.some((limit) => this.sightOf(limit)?.matchedUs !== undefined);
    return {
      id: textOf(`${domain.domain}/${rule.path}`) + tier,
      where: formatPlace(rule.at),
      matchedUs,
      sinceUs,
      calls: domain.stats.calls - callsThen,
      why: whyUnmatched([...above, rule], domain, this.#sources.shapesOf(domain.domain), isMet),
    };
  }
}

function matchesOf(limit: Limit): number {
  return limitsOnBucket(limit).reduce((sum, { stats }) => sum + stats.matches, 0);
}

/** `hasMatched`: since the last look. A new limit has matched if its counters have moved. */
function watchedFrom(limit: Limit, domain: DomainRules, nowUs: number, hasMatched: boolean): Watched {
  const matches = matchesOf(limit);
  const matchedUs = hasMatched || matches > 0 ? nowUs : undefined;
  const count = limitsOnBucket(limit).reduce((sum, { stats }) => sumOfCounts(sum, stats.count()), NO_COUNT);
  return { limit, domain, matches, count, matchedUs, sinceUs: nowUs, callsThen: domain.stats.calls };
}

/** Of several limits the one that matched last; if none did, the one that is known longest. */
function latest(sights: readonly Sight[]): Sight | undefined {
  const matched = sights.filter(({ matchedUs }) => matchedUs !== undefined);
  if (matched.length > 0) return matched.reduce((one, other) => (other.sinceUs > one.sinceUs ? other : one));
  return sights.reduce<Sight | undefined>(
    (one, other) => (one && one.sinceUs <= other.sinceUs ? one : other),
    undefined,
  );
}

function* writtenRules({ domains }: RuleSet): LongWork<Written[]> {
  const written = new Map<string, Written>();
  for (const domain of domains.values()) yield* addWritten(domain, domain.root, [], domain.domain, written);
  return [...written.values()];
}

function* addWritten(
  domain: DomainRules,
  level: Level,
  above: readonly Rule[],
  aboveAt: string,
  written: Map<string, Written>,
): LongWork<void> {
  for (const rule of level.rules) {
    yield;
    const at = `${aboveAt} ${formatPlace(rule.at)}`;
    for (const one of rulesOfTiers(rule)) {
      if (one.limits.length === 0) continue;
      const key = `${at} ${one.limitsName}`;
      const known = written.get(key);
      if (known === undefined) written.set(key, { domain, above, copies: [one] });
      else known.copies.push(one);
    }
    if (rule.children !== undefined) yield* addWritten(domain, rule.children, [...above, rule], at, written);
  }
}
