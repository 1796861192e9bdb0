// Overrides: limits in a descriptor, which replace the limits of the rule that it matches. They are made once per rule,
// unit and amount, and kept in bounded number. An override replaces the rule's amounts; the rule's other settings apply
// to it too.

import { RequestError } from "../../base/errors.ts";
import { RecentMap } from "../../base/recent-map.ts";
import { AMOUNT_MAX } from "../../base/units.ts";
import { visible } from "../../base/visible.ts";
import {
  Algorithm,
  type Limit,
  LOG_PAYMENTS_MAX,
  Sync,
  UNIT_NAMES,
  UNIT_SECONDS,
  Unit,
  WINDOW_SECONDS_MAX,
  WRITTEN_ALGORITHM_NAMES,
  WRITTEN_ALGORITHMS,
} from "../domain/limit.ts";
import { type Descriptor, textOf } from "../domain/request.ts";
import type { StatsBook } from "../domain/stats.ts";
import { limitKeySuffix, shownValue, writeBaseKey } from "../rules/bucket-key.ts";
import type { MatchWork } from "../rules/match.ts";
import { hidesValues } from "../rules/match.ts";
import { LOW_LABEL, priorityOf } from "../rules/priority.ts";
import type { DomainRules, Rule } from "../rules/rule-set.ts";
import { DEBT_BURSTS_DEFAULT } from "../rules/schema.ts";
import type { LimitCall } from "./call.ts";
import { addTake, type FillOptions, type Question } from "./question.ts";

/** Fills the overrides of one call at a time, with the working memory of the filler that it belongs to. */
export class OverrideFiller {
  readonly #options: FillOptions;
  readonly #limits: OverrideLimits;
  readonly #matched: Rule[];
  readonly #work: MatchWork;

  constructor(options: FillOptions, matched: Rule[], work: MatchWork) {
    this.#options = options;
    this.#limits = new OverrideLimits(options);
    this.#matched = matched;
    this.#work = work;
  }

  /** Adds the takes of the override and of its rule's `concurrent`. Throws RequestError for an unknown unit. */
  fill(call: LimitCall, rules: DomainRules, question: Question): void {
    const { descriptor, index } = question;
    if (rules.counters !== undefined) {
      // With counters an override replaces the whole rule.
      question.read(call.request, rules, undefined);
      call.rules[index] = undefined;
    }
    const { rule } = question;
    const limit = this.#limits.limitOf(descriptor, rules, rule);
    const hashesValues = rule?.hashesValues ?? hidesValues(rules, descriptor, this.#work);
    const { counters } = this.#options;
    if (counters !== undefined && rules.counters !== undefined) {
      const key = rules.counters.keyOf(rules, descriptor, undefined, hashesValues);
      const take = counters.add(call.group, question, limit, key);
      if (this.#options.countsNothing === true) return;
      take.stats = this.#options.statsBook.statsOfValues(limit.stats, entryPath(descriptor, hashesValues));
      return;
    }
    this.#add(call, rules, question, limit, hashesValues);
    for (const other of rule?.limits ?? []) {
      if (other.isConcurrent) this.#add(call, rules, question, other, hashesValues);
      else if (this.#options.countsNothing !== true) other.stats.withoutHits++;
    }
  }

  #add(call: LimitCall, rules: DomainRules, question: Question, limit: Limit, hashesValues: boolean): void {
    if (question.leavesAlone(limit)) return;
    // All calls of the rule share the places of its `concurrent`.
    const matched = limit.isConcurrent ? this.#matched : undefined;
    const { keys } = call.group;
    const keyAt = keys.end;
    writeBaseKey(keys, rules, question.descriptor, matched, hashesValues);
    keys.write(limit.keySuffix);
    addTake(call.group, question, limit, keyAt, (question.rule ?? rules).chargesGivenHits);
  }
}

/** The stat path of an override: one element per entry. */
function entryPath({ keys, values, entryCount }: Descriptor, hashesValues: boolean): string[] {
  return keys.slice(0, entryCount).map((key, i) => {
    const value = shownValue(values[i] as string, hashesValues);
    return value === "" ? key : `${key}_${value}`;
  });
}

/**
 * Limits of one generation, 4,096 in both, less than 1 MB, which is enough for the plans of a service. If callers bring
 * ever new amounts, more would cost more per call (bench/micro/overrides.mjs), because the garbage collector copies
 * objects that live longer.
 */
const LIMITS_MAX = 2_048;
const AMOUNTS = 2 ** 32;
/**
 * From so many templates on, all limits are forgotten, and numbers start over: with an amount, a larger number would
 * not be exact.
 */
const TEMPLATES_MAX = 2 ** 20;

type OverrideOptions = Pick<FillOptions, "onStoreFailure" | "retryAfterJitter"> & { readonly statsBook: StatsBook };

/** What all overrides of one unit share under one rule, or in one domain if the entries match no rule. */
interface Template {
  /** Unique number of the template, from 1. */
  readonly number: number;
  /** The limit with amount 0, and with the priority of the rule's first limit. */
  readonly limit: Limit;
}

/** By the number of the unit; undefined for Unit.unknown. */
type Templates = readonly (Template | undefined)[];

/**
 * The path and the name of the counters of all overrides of a domain. No rule has an empty key, and no limit such a
 * name.
 */
export const OVERRIDE_STATS = { path: ["", "(overrides)"], name: "(overrides)" } as const;

/**
 * Makes limits of overrides and remembers them. Leases and denial memory compare limits by identity, so an amount that
 * calls keep bringing must stay the same object for as long as they do.
 */
export class OverrideLimits {
  readonly #options: OverrideOptions;
  #templates = new WeakMap<Limit | Rule | DomainRules, Templates>();
  #templateCount = 0;
  /** By template and amount; text if the window has several units, or the algorithm was said. */
  readonly #limits = new RecentMap<number | string, Limit>(LIMITS_MAX);

  constructor(options: OverrideOptions) {
    this.#options = options;
  }

  /**
   * The limit of the descriptor's override. `rule` has limits or is unlimited; undefined if the entries match no such
   * rule. Throws RequestError for an unknown unit or algorithm, a window of no unit or of more than a year, and a log
   * that is too long.
   */
  limitOf(descriptor: Descriptor, rules: DomainRules, rule: Rule | undefined): Limit {
    const { overrideAmount: amount, overrideUnit: unit, overrideUnits, overrideAlgorithm } = descriptor;
    const template = this.#templatesOf(rules, rule)[unit];
    if (template === undefined) throw unknownUnit(unit);
    const units = overrideUnits < 0 ? 1 : overrideUnits;
    const unitsMax = Math.floor(WINDOW_SECONDS_MAX / template.limit.windowSeconds);
    if (units === 0 || units > unitsMax) throw wrongMultiplier(units, unitsMax, unit);
    const isPlain = units === 1 && overrideAlgorithm === "";
    const key = isPlain
      ? template.number * AMOUNTS + amount
      : `${template.number} ${units} ${amount} ${overrideAlgorithm}`;
    const known = this.#limits.get(key);
    if (known !== undefined) return known;
    const like = isPlain ? template.limit : changed(template.limit, units, algorithmOf(descriptor, template));
    const limit = withAmount(like, amount);
    this.#limits.set(key, limit);
    return limit;
  }

  #templatesOf(rules: DomainRules, rule: Rule | undefined): Templates {
    // An override replaces all limits of a rule; the settings of the first one apply to it.
    const owner = rule?.limits[0] ?? rule ?? rules;
    let templates = this.#templates.get(owner);
    if (templates === undefined) {
      if (this.#templateCount >= TEMPLATES_MAX) this.#forget();
      templates = UNIT_SECONDS.map((_, unit) =>
        unit === Unit.unknown ? undefined : this.#template(unit, rules, rule),
      );
      this.#templates.set(owner, templates);
    }
    return templates;
  }

  #forget(): void {
    this.#templates = new WeakMap();
    this.#templateCount = 0;
    this.#limits.clear();
  }

  #template(unit: number, rules: DomainRules, rule: Rule | undefined): Template {
    const first = rule?.limits[0];
    const windowSeconds = UNIT_SECONDS[unit] as number;
    const isCounter = rules.counters !== undefined;
    const algorithm = rule?.hold === undefined ? Algorithm.slidingWindow : algorithmWithHolds(rule);
    const { onStoreFailure, retryAfterJitter } = first?.policy ?? this.#options;
    this.#templateCount++;
    const limit: Limit = {
      algorithm: isCounter ? Algorithm.fixedWindow : algorithm,
      amount: 0,
      burst: 0,
      windowSeconds,
      calendar: undefined,
      debtMax: 0,
      holdSeconds: rule?.hold?.seconds ?? 0,
      isConcurrent: false,
      isCounter,
      reserve: 0,
      keySuffix: limitKeySuffix(algorithm, windowSeconds, ""),
      shownAmount: 0,
      shownUnit: unit as Unit,
      writtenSeconds: windowSeconds,
      // A bucket of its own that one caller has alone keeps nothing for others.
      priority: first?.priority?.guarantee === undefined ? first?.priority : undefined,
      policy: {
        onStoreFailure,
        // A lease ends when another limit comes for its bucket.
        sync: first?.policy.sync ?? Sync.exact,
        retryAfterJitter,
        replaces: [],
      },
      names: {
        id: `${rules.domain}/${rule?.path ?? ""}#override`,
        path: rule?.path ?? "#override",
        name: "",
        readableName: first?.names.readableName ?? "",
      },
      // One series for all overrides of a domain, however many amounts callers bring.
      stats: this.#options.statsBook.statsOf(rules.domain, OVERRIDE_STATS.path, OVERRIDE_STATS.name),
    };
    return { number: this.#templateCount, limit };
  }
}

/** The template of windows of several units, counted by this algorithm. */
function changed(template: Limit, units: number, algorithm: Algorithm): Limit {
  const windowSeconds = template.windowSeconds * units;
  return {
    ...template,
    algorithm,
    windowSeconds,
    writtenSeconds: windowSeconds,
    shownUnit: units === 1 ? template.shownUnit : Unit.unknown,
    keySuffix: limitKeySuffix(algorithm, windowSeconds, ""),
  };
}

/** Holds and counters have the algorithm of their rule or domain, whatever the call says. */
function algorithmOf({ overrideAlgorithm: name, overrideAmount: amount }: Descriptor, { limit }: Template): Algorithm {
  const named = name === "" ? limit.algorithm : WRITTEN_ALGORITHMS[WRITTEN_ALGORITHM_NAMES.indexOf(name)];
  if (named === undefined)
    throw wrongAlgorithm(`is '${visible(textOf(name).slice(0, 64))}'`, WRITTEN_ALGORITHM_NAMES.join(", "));
  if (limit.isCounter || limit.holdSeconds > 0) return limit.algorithm;
  if (named === Algorithm.slidingLog && amount > LOG_PAYMENTS_MAX)
    throw wrongAlgorithm(`has ${amount} requests in a sliding_log`, `at most ${LOG_PAYMENTS_MAX}, or sliding_window`);
  return named;
}

// Field by field, because any call may bring a new amount, and an object spread takes several times as long.
function withAmount(template: Limit, amount: number): Limit {
  const limit: { -readonly [Key in keyof Limit]: Limit[Key] } = {
    algorithm: template.algorithm,
    amount,
    burst: amount,
    windowSeconds: template.windowSeconds,
    calendar: undefined,
    debtMax: template.algorithm === Algorithm.tokenBucket ? Math.min(amount * DEBT_BURSTS_DEFAULT, AMOUNT_MAX) : amount,
    holdSeconds: template.holdSeconds,
    isConcurrent: false,
    isCounter: template.isCounter,
    reserve: 0,
    keySuffix: template.keySuffix,
    shownAmount: amount,
    shownUnit: template.shownUnit,
    writtenSeconds: template.writtenSeconds,
    priority: undefined,
    policy: template.policy,
    names: template.names,
    stats: template.stats,
  };
  if (template.priority === undefined) return limit;
  const own = { id: `${limit.names.id}/${LOW_LABEL}`, stats: limit.stats };
  limit.priority = priorityOf(template.priority, limit, own);
  return limit;
}

function unknownUnit(unit: number): RequestError {
  return new RequestError(
    "REQUEST_OVERRIDE_UNIT",
    `the limit of a descriptor has unit ${unit}; expected 1 to 7 (SECOND, MINUTE, HOUR, DAY, MONTH, YEAR, WEEK)`,
  );
}

function wrongAlgorithm(what: string, expected: string): RequestError {
  return new RequestError(
    "REQUEST_OVERRIDE_ALGORITHM",
    `the algorithm of a descriptor's limit ${what}; expected ${expected}`,
  );
}

function wrongMultiplier(units: number, unitsMax: number, unit: number): RequestError {
  return new RequestError(
    "REQUEST_OVERRIDE_UNIT",
    `the limit of a descriptor has unit_multiplier ${units}; expected 1 to ${unitsMax} with unit ${UNIT_NAMES[unit]?.toUpperCase()}`,
  );
}

/**
 * The algorithm of an override under a rule with holds: the one of the rule's own limit, because a sliding window can't
 * give holds back exactly. A calendar window becomes a fixed one, because an override brings a unit without a calendar.
 */
function algorithmWithHolds({ limits }: Rule): Algorithm {
  const algorithm = limits.find(({ isConcurrent }) => !isConcurrent)?.algorithm ?? Algorithm.tokenBucket;
  return algorithm === Algorithm.calendarWindow ? Algorithm.fixedWindow : algorithm;
}
