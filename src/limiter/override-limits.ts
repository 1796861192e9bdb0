// Limits that calls bring along (overrides): made once for each amount and unit under a rule, and kept in bounded number. An
// override takes the place of the rule's numbers; what else the rule says holds for it, too.

import { RequestError } from "../core/errors.ts";
import { Algorithm, type Limit, type OnStoreFailure, type Priority, Sync, UNIT_SECONDS, Unit } from "../core/limit.ts";
import type { StatsBook } from "../core/limit-stats.ts";
import type { Descriptor } from "../core/request.ts";
import { AMOUNT_MAX } from "../core/units.ts";
import { limitKeySuffix } from "../rules/bucket-key.ts";
import { LOW_LABEL, lowLimit, reserveOf } from "../rules/priority.ts";
import type { DomainRules, Rule } from "../rules/rule-set.ts";
import { DEBT_BURSTS_DEFAULT } from "../rules/schema.ts";
import { asCounter } from "./fill-counter.ts";

const SLOTS_PER_SET = 4;
/**
 * 4,096 limits in all, less than 1 MB: more amounts than a fleet's plans have. Where amounts are endless a larger table costs
 * more, not less (bench/micro/overrides.mjs): what is kept for longer is copied by the garbage collector.
 */
const SET_BITS = 10;
const SETS = 2 ** SET_BITS;

/** 2^32 over the golden ratio: neighbours and multiples of ten come to sets far from each other. */
const GOLDEN = 0x9e3779b1;

interface OverrideOptions {
  /** Of limits whose entries lead to no rule. */
  readonly onStoreFailure: OnStoreFailure;
  readonly retryAfterJitter: number;
  readonly statsBook: StatsBook;
}

/** What all overrides of one unit have in common under one rule, or in one domain where the entries lead to no rule. */
interface Template {
  /** Tells it from all others. */
  readonly number: number;
  /** Without its amount. */
  readonly limit: Limit;
  /** What the rule keeps for calls of high priority. */
  readonly priority: Priority | undefined;
}

/** By unit. */
type Templates = readonly (Template | undefined)[];

/**
 * Limits by template and amount. Whatever remembers a bucket (leases, refusals) tells limits apart by identity, so an amount
 * that calls go on to bring must go on to be the same object: of a set of slots the one goes that nobody asked for longest.
 */
class LimitTable {
  // A slot is found by its amount and the number of its template; 0 if it is empty. Those of one set lie side by side.
  readonly #amounts = new Uint32Array(SETS * SLOTS_PER_SET);
  readonly #numbers = new Uint32Array(SETS * SLOTS_PER_SET);
  /** How many had been asked for when it was last asked for. */
  readonly #askedAt = new Float64Array(SETS * SLOTS_PER_SET);
  readonly #limits: (Limit | undefined)[] = new Array(SETS * SLOTS_PER_SET).fill(undefined);
  #asked = 0;

  limitOf(template: Template, amount: number): Limit {
    this.#asked++;
    const first = (Math.imul(amount + template.number, GOLDEN) >>> (32 - SET_BITS)) * SLOTS_PER_SET;
    let oldest = first;
    for (let slot = first; slot < first + SLOTS_PER_SET; slot++) {
      if (this.#amounts[slot] === amount && this.#numbers[slot] === template.number) {
        this.#askedAt[slot] = this.#asked;
        return this.#limits[slot] as Limit;
      }
      if ((this.#askedAt[slot] as number) < (this.#askedAt[oldest] as number)) oldest = slot;
    }
    const limit = withAmount(template, amount);
    this.#amounts[oldest] = amount;
    this.#numbers[oldest] = template.number;
    this.#askedAt[oldest] = this.#asked;
    this.#limits[oldest] = limit;
    return limit;
  }
}

/** Makes and keeps limits of overrides. */
export class OverrideLimits {
  readonly #options: OverrideOptions;
  readonly #templates = new WeakMap<Limit | DomainRules, Templates>();
  /** A rule's first limit. No domain: it would keep rules that are no longer in force. */
  #lastOwner: Limit | undefined;
  #lastTemplates: Templates = [];
  #templateCount = 0;
  /** Made with the first override: most services never see one. */
  #table: LimitTable | undefined;

  constructor(options: OverrideOptions) {
    this.#options = options;
  }

  /** The limit that the descriptor brings along. `rule` has a limit; undefined: the entries lead to none. Throws RequestError. */
  limitOf(descriptor: Descriptor, rules: DomainRules, rule: Rule | undefined): Limit {
    const { overrideAmount: amount, overrideUnit: unit } = descriptor;
    const template = this.#templatesOf(rules, rule)[unit];
    if (template === undefined) throw unknownUnit(unit);
    this.#table ??= new LimitTable();
    return this.#table.limitOf(template, amount);
  }

  #templatesOf(rules: DomainRules, rule: Rule | undefined): Templates {
    // Of a rule with several limits the first speaks: an override takes the place of all of them.
    const words = rule?.limits[0];
    if (words !== undefined && words === this.#lastOwner) return this.#lastTemplates;
    const owner = words ?? rules;
    let templates = this.#templates.get(owner);
    if (templates === undefined) {
      templates = UNIT_SECONDS.map((_, unit) =>
        unit === Unit.unknown ? undefined : this.#template(unit, rules, rule),
      );
      this.#templates.set(owner, templates);
    }
    this.#lastOwner = words;
    this.#lastTemplates = templates;
    return templates;
  }

  #template(unit: number, rules: DomainRules, rule: Rule | undefined): Template {
    const words = rule?.limits[0];
    const windowSeconds = UNIT_SECONDS[unit] as number;
    const algorithm = rule?.hold === undefined ? Algorithm.slidingWindow : algorithmWithHolds(rule);
    const limit: Limit = {
      algorithm,
      amount: 0,
      burst: 0,
      windowSeconds,
      calendar: undefined,
      writtenSeconds: windowSeconds,
      debtMax: 0,
      holdSeconds: rule?.hold?.seconds ?? 0,
      isConcurrent: false,
      reserve: 0,
      priority: undefined,
      shownAmount: 0,
      shownUnit: unit as Unit,
      name: "",
      readableName: words?.readableName ?? "",
      id: rule === undefined ? `${rules.domain}/override` : `${rules.domain}/${rule.path}#override`,
      path: rule?.path ?? "override",
      keySuffix: limitKeySuffix(algorithm, windowSeconds, ""),
      isCounter: false,
      retryAfterJitter: words?.retryAfterJitter ?? this.#options.retryAfterJitter,
      onStoreFailure: words?.onStoreFailure ?? this.#options.onStoreFailure,
      // A lease ends where another limit comes. The other ways to share have no bound for limits that change with each call.
      sync: words?.sync === Sync.lease ? Sync.lease : Sync.exact,
      replaces: [],
      // One series for all of a domain, however many amounts callers bring.
      stats: this.#options.statsBook.statsOf(rules.domain, ["override"], ""),
    };
    this.#templateCount++;
    return {
      number: this.#templateCount,
      limit: rules.counterPrefix === undefined ? limit : asCounter(limit),
      priority: words?.priority,
    };
  }
}

// Field by field: a call may bring an amount that nobody has brought lately, and copying by spread takes several times as long.
function withAmount({ limit: template, priority }: Template, amount: number): Limit {
  const limit: { -readonly [Key in keyof Limit]: Limit[Key] } = {
    algorithm: template.algorithm,
    amount,
    burst: amount,
    windowSeconds: template.windowSeconds,
    calendar: undefined,
    writtenSeconds: template.writtenSeconds,
    debtMax: template.algorithm === Algorithm.tokenBucket ? Math.min(amount * DEBT_BURSTS_DEFAULT, AMOUNT_MAX) : amount,
    holdSeconds: template.holdSeconds,
    isConcurrent: false,
    reserve: 0,
    priority: undefined,
    shownAmount: amount,
    shownUnit: template.shownUnit,
    name: template.name,
    readableName: template.readableName,
    id: template.id,
    path: template.path,
    keySuffix: template.keySuffix,
    isCounter: template.isCounter,
    retryAfterJitter: template.retryAfterJitter,
    onStoreFailure: template.onStoreFailure,
    sync: template.sync,
    replaces: template.replaces,
    stats: template.stats,
  };
  if (priority !== undefined) limit.priority = overridden(priority, limit);
  return limit;
}

/** The rule's priority with the numbers that the call brings. */
function overridden({ entry, values, percent }: Priority, limit: Limit): Priority {
  const low = lowLimit(limit, reserveOf(limit.burst, percent), {
    id: `${limit.id}/${LOW_LABEL}`,
    stats: limit.stats,
  });
  return { entry, values, percent, low };
}

function unknownUnit(unit: number): RequestError {
  return new RequestError(
    "REQUEST_OVERRIDE_UNIT",
    `the limit of a descriptor has unit ${unit}; expected 1 to 7 (SECOND, MINUTE, HOUR, DAY, MONTH, YEAR, WEEK)`,
  );
}

/** Holds are given back, which a sliding window can't do exactly: what is held goes the way of the rule's own limit. The unit has no calendar. */
function algorithmWithHolds({ limits }: Rule): Algorithm {
  const algorithm = limits.find(({ isConcurrent }) => !isConcurrent)?.algorithm ?? Algorithm.tokenBucket;
  return algorithm === Algorithm.calendarWindow ? Algorithm.fixedWindow : algorithm;
}
