// Knows when each limit last matched a call. It compares the counters of rules with those of a minute before, so calls cost nothing more.

import type { LongWork } from "../../engine/base/long-work.ts";
import { MICROS_PER_SECOND } from "../../engine/base/units.ts";
import type { Limit } from "../../engine/domain/limit.ts";
import { textOf } from "../../engine/domain/request.ts";
import type { LimitStats } from "../../engine/domain/stats.ts";
import { limitsOnBucket } from "../../engine/rules/priority.ts";
import { formatPlace } from "../../engine/rules/problems.ts";
import type { DomainRules, Level, Rule, RuleSet } from "../../engine/rules/rule-set.ts";
import { rulesOfTiers } from "../../engine/rules/tiers.ts";
import { type UnmatchedShape, whyUnmatched } from "../../engine/rules/why-unmatched.ts";
import { type Information, LimitTrends } from "./limit-trends.ts";
import type { LimitSums } from "./stats-book.ts";

/** A limit is dead if its domain has had this many calls since its last match, */
const DEAD_CALLS = 10_000;
/** and that was so long ago: an hour if it has matched none since the start or since its rule is in force, else a day. */
const NEVER_US = 3_600 * MICROS_PER_SECOND;
const NO_LONGER_US = 24 * NEVER_US;
/** Of a domain so many rules with dead limits are described. */
const DESCRIBED_MAX = 20;
/** Limits that are looked at in one step. */
const LIMITS_PER_STEP = 100;

/** Counters of which one moves with each call that a limit applies to. */
const MATCHES: readonly (keyof LimitSums)[] = [
  "totalHits",
  "peeks",
  "settlements",
  "settledLate",
  "settledAgain",
  "holdsExpired",
];

/** What is known of a limit. */
interface Sight {
  /** When it last matched; undefined if it has not since `sinceUs`. Exact to a minute. */
  readonly matchedUs: number | undefined;
  readonly sinceUs: number;
  /** Calls of its domain until then. */
  readonly callsThen: number;
  readonly matches: number;
}

/** Limits of one rule that match no call. */
export interface DeadLimit extends Pick<Sight, "matchedUs" | "sinceUs"> {
  /** The rule, or its limits that are dead while others are not. */
  readonly ids: readonly string[];
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
  readonly rules: readonly DeadLimit[];
}

/** A rule as it is written: values of `one_of` are copies of it, which match together. Each tier is a rule. */
interface Written {
  readonly domain: DomainRules;
  readonly chain: readonly Rule[];
  readonly copies: Rule[];
}

interface WatchSources {
  readonly sumsOf: (stats: LimitStats) => LimitSums;
  readonly shapesOf: (domain: string) => Iterable<UnmatchedShape>;
}

/** Checks the limits in force when called, which should be once a minute. */
export class LimitWatch {
  readonly #sources: WatchSources;
  readonly #sights = new WeakMap<LimitStats, Sight>();
  readonly #trends = new LimitTrends();
  #rules: RuleSet | undefined;
  #written: readonly Written[] = [];
  /** As of the last look. */
  dead: readonly DeadLimits[] = [];

  constructor(sources: WatchSources) {
    this.#sources = sources;
  }

  *look(rules: RuleSet, nowUs: number): LongWork<void> {
    if (this.#rules !== rules) this.#written = yield* writtenRules(rules);
    this.#rules = rules;
    let looked = 0;
    for (const domain of rules.domains.values()) {
      const calls = domain.stats.sum("calls");
      for (const limit of domain.limits) {
        const sums = this.#sources.sumsOf(limit.stats);
        this.#sights.set(limit.stats, this.#sightOf(limit.stats, sums, calls, nowUs));
        this.#trends.look(limit, domain, sums, nowUs);
        if (++looked % LIMITS_PER_STEP === 0) yield;
      }
    }
    const dead = new Map<DomainRules, { rules: DeadLimit[]; count: number }>();
    for (const written of this.#written) {
      if (++looked % LIMITS_PER_STEP === 0) yield;
      const limits = this.#deadOf(written, nowUs);
      if (limits.length === 0) continue;
      const found = dead.get(written.domain) ?? { rules: [], count: 0 };
      dead.set(written.domain, found);
      if (found.count++ < DESCRIBED_MAX) found.rules.push(this.#describe(written, limits));
      yield;
    }
    this.#trends.end();
    this.dead = [...dead].map(([{ domain }, found]) => ({ domain: textOf(domain), ...found }));
  }

  /** What is worth knowing of limits besides; as of the last look. */
  get information(): readonly Information[] {
    return this.#trends.information;
  }

  /** When the limit last matched, and since when that is known; undefined before the first look at it. */
  sightOf(limit: Limit): Sight | undefined {
    const sights = limitsOnBucket(limit).map(({ stats }) => this.#sights.get(stats));
    return latest(sights.filter((sight) => sight !== undefined));
  }

  #sightOf(stats: LimitStats, sums: LimitSums, calls: number, nowUs: number): Sight {
    const matches = MATCHES.reduce((sum, name) => sum + sums[name], 0);
    const last = this.#sights.get(stats);
    if (last?.matches === matches) return last;
    const hasMatched = last !== undefined || matches > 0;
    return { matches, matchedUs: hasMatched ? nowUs : undefined, sinceUs: nowUs, callsThen: calls };
  }

  /** The limits of the rule that are dead, each with what is known of it. */
  #deadOf({ domain, copies }: Written, nowUs: number): (readonly [Limit, Sight])[] {
    const [first] = copies;
    if (first === undefined || first.isRare) return [];
    const calls = domain.stats.sum("calls");
    return first.limits.flatMap((limit, i) => {
      const sights = copies.map(({ limits }) => this.sightOf(limits[i] as Limit));
      const sight = latest(sights.filter((one) => one !== undefined));
      if (sight === undefined || calls - sight.callsThen < DEAD_CALLS) return [];
      const isDead = nowUs - sight.sinceUs >= (sight.matchedUs === undefined ? NEVER_US : NO_LONGER_US);
      return isDead ? [[limit, sight] as const] : [];
    });
  }

  #describe({ domain, chain, copies }: Written, dead: readonly (readonly [Limit, Sight])[]): DeadLimit {
    const [rule] = copies as [Rule];
    const isWhole = dead.length === rule.limits.length;
    const tier = rule.tiers === undefined ? "" : ` (${textOf(rule.limitsName)})`;
    const { matchedUs, sinceUs, callsThen } = latest(dead.map(([, sight]) => sight)) as Sight;
    const isMet = ({ limits }: Rule) => limits.some((limit) => this.sightOf(limit)?.matchedUs !== undefined);
    const why = isWhole
      ? whyUnmatched(chain, domain, this.#sources.shapesOf(domain.domain), isMet)
      : "calls match the rule, but limits that name it in `replaces` came with all of them";
    return {
      ids: isWhole ? [textOf(`${domain.domain}/${rule.path}`) + tier] : dead.map(([{ names }]) => textOf(names.id)),
      where: formatPlace(rule.at),
      matchedUs,
      sinceUs,
      calls: domain.stats.sum("calls") - callsThen,
      why,
    };
  }
}

/** Of several copies of a limit the one that matched last; of copies that never did the one that is known longest. */
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
      if (known === undefined) written.set(key, { domain, chain: [...above, one], copies: [one] });
      else known.copies.push(one);
    }
    if (rule.children !== undefined) yield* addWritten(domain, rule.children, [...above, rule], at, written);
  }
}
